package namespace

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func custom(kind, namespace, name string, finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name + "-" + strings.ToLower(kind), Finalizers: finalizers}
}

// TestCustomResourcesGoWithTheirNamespace empties a namespace of custom resources: of a kind that is known, of
// one whose stored version is not served, and of one of which the controllers have not heard yet.
func TestCustomResourcesGoWithTheirNamespace(t *testing.T) {
	for name, late := range map[string]time.Duration{"at once": 0, "the informer is late": 8 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startOn(t, controltest.NewLate(t, "CustomResourceDefinition", late))
				time.Sleep(late + time.Second)
				gadgets, widgets := controltest.Definition("Gadget", "v1"), controltest.Definition("Widget", "v1", "v2")
				widgets.Spec.Versions[0].Served = false
				for _, namespace := range []string{"x", "y"} {
					controltest.LoadCustom(p, gadgets, controltest.Custom("Gadget", custom("Gadget", namespace, namespace)))
					controltest.LoadCustom(p, widgets, controltest.Custom("Widget", custom("Widget", namespace, namespace)))
				}
				for _, kind := range p.Table().Kinds() {
					if kind.Custom {
						t.Fatalf("the table has %s", kind.GroupVersionKind)
					}
				}
				p.Load(gadgets, widgets)
				p.Remove(controltest.Get[*corev1.Pod](p, "x", "p"))
				var unserved []string
				p.Fail(func(call client.Call) error {
					if call.Kind.Resource == "widgets" && call.Kind.Version == "v1" && call.Verb != "watch" {
						unserved = append(unserved, call.Verb)
					}
					return nil
				})
				remove(t, p, "x")
				time.Sleep(time.Minute)
				synctest.Wait()
				p.Fail(nil)
				if len(unserved) > 0 {
					t.Errorf("a version was asked for that is not served: %q", unserved)
				}
				if left := controltest.List[*corev1.Namespace](p); len(left) != 1 {
					t.Errorf("got %d namespaces, want 1", len(left))
				}
				if left := controltest.CustomNames(p, gadgets); !slices.Equal(left, []string{"y-gadget"}) {
					t.Errorf("got the Gadgets %q", left)
				}
				if left := controltest.CustomNames(p, widgets); !slices.Equal(left, []string{"y-widget"}) {
					t.Errorf("got the Widgets %q", left)
				}
			})
		})
	}
}

// TestACustomResourceHoldsItsNamespace keeps the namespace of a custom resource with a finalizer.
func TestACustomResourceHoldsItsNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		gadgets := controltest.Definition("Gadget", "v1")
		p.Load(gadgets)
		p.Remove(controltest.Get[*corev1.Pod](p, "x", "p"))
		time.Sleep(time.Second)
		controltest.LoadCustom(p, gadgets, controltest.Custom("Gadget", custom("Gadget", "x", "x", "example.com/hold")))
		remove(t, p, "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		x := controltest.Get[*corev1.Namespace](p, "", "x")
		if c := condition(x, corev1.NamespaceFinalizersRemaining); c.Message != "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances" {
			t.Errorf("got finalizers %+v", c)
		}
		if c := condition(x, corev1.NamespaceContentRemaining); c.Message != "Some resources are remaining: gadgets.example.com has 1 resource instances" {
			t.Errorf("got content %+v", c)
		}
		controltest.LoadCustom(p, gadgets, controltest.Custom("Gadget", custom("Gadget", "x", "x")))
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := controltest.List[*corev1.Namespace](p); len(left) != 1 {
			t.Errorf("got %d namespaces, want 1", len(left))
		}
	})
}

// TestTheKindsMustBeKnown keeps an empty namespace while the definitions cannot be read.
func TestTheKindsMustBeKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Remove(controltest.Get[*corev1.Pod](p, "x", "p"))
		p.Fail(func(call client.Call) error {
			if call.Kind.Resource == "customresourcedefinitions" && call.Verb == "list" {
				return errors.New("no definitions today")
			}
			return nil
		})
		remove(t, p, "x")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		c := condition(controltest.Get[*corev1.Namespace](p, "", "x"), corev1.NamespaceDeletionDiscoveryFailure)
		if c.Status != corev1.ConditionTrue || c.Reason != "DiscoveryFailed" || !strings.Contains(c.Message, "no definitions today") {
			t.Errorf("got the condition %+v", c)
		}
		p.Fail(nil)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if n := len(controltest.List[*corev1.Namespace](p)); n != 1 {
			t.Errorf("got %d namespaces, want 1", n)
		}
		before := len(p.Calls())
		remove(t, p, "y")
		p.Remove(controltest.Get[*corev1.Pod](p, "y", "p"))
		time.Sleep(time.Minute)
		synctest.Wait()
		lists := 0
		for _, call := range p.Calls()[before:] {
			if call.Kind.Resource == "customresourcedefinitions" && call.Verb == "list" {
				lists++
			}
		}
		if lists != 1 {
			t.Errorf("the definitions were read %d times for one namespace, want once", lists)
		}
	})
}
