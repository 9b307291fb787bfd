package namespace

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// serveGadgets makes Gadgets a kind of another server, with these verbs; one that does not answer if there are none.
func serveGadgets(p *controltest.Plane, verbs ...string) {
	p.OnDocument(func(path string) ([]byte, error) {
		if path != "/apis/example.com/v1" || len(verbs) == 0 {
			return nil, errors.New("the server is currently unable to handle the request")
		}
		return p.Resources(schema.GroupVersion{Group: "example.com", Version: "v1"},
			metav1.APIResource{Name: "gadgets", Kind: "Gadget", Namespaced: true, Verbs: verbs},
			metav1.APIResource{Name: "globals", Kind: "Global", Verbs: verbs}), nil
	})
}

// TestAggregatedAPIs empties a namespace of what other servers hold, by the verbs that they have.
func TestAggregatedAPIs(t *testing.T) {
	for name, c := range map[string]struct {
		verbs []string
		calls []string // that write Gadgets
		left  []string
	}{
		"all verbs":           {[]string{"delete", "deletecollection", "list"}, []string{"deletecollection "}, []string{"y-gadget"}},
		"one by one":          {[]string{"delete", "list"}, []string{"delete x-gadget"}, []string{"y-gadget"}},
		"not listed":          {[]string{"delete", "deletecollection"}, []string{"deletecollection "}, []string{"y-gadget"}},
		"not even one by one": {[]string{"delete"}, nil, []string{"x-gadget", "y-gadget"}},
		"no deletion":         {[]string{"get", "list"}, nil, []string{"x-gadget", "y-gadget"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				serveGadgets(p, c.verbs...)
				gadgets := controltest.Definition("Gadget", "v1")
				for _, namespace := range []string{"x", "y"} {
					controltest.LoadCustom(p, gadgets, controltest.Custom("Gadget", custom("Gadget", namespace, namespace)))
				}
				p.Load(controltest.APIService("example.com", "v1", 10))
				p.Remove(controltest.Get[*corev1.Pod](p, "x", "p"))
				p.ClearCalls()
				remove(t, p, "x")
				time.Sleep(time.Minute)
				synctest.Wait()
				var calls []string
				for _, call := range p.Writes() {
					if call.Kind.Kind == "Global" || call.Kind.Kind == "Gadget" && call.Namespace != "x" {
						t.Errorf("got a %s of %s in namespace %q", call.Verb, call.Kind.Kind, call.Namespace)
					}
					if call.Kind.Kind == "Gadget" {
						calls = append(calls, call.Verb+" "+call.Name)
					}
				}
				if calls = slices.Compact(calls); !slices.Equal(calls, c.calls) {
					t.Errorf("got the writes %q, want %q", calls, c.calls)
				}
				if left := controltest.CustomNames(p, gadgets); !slices.Equal(left, c.left) {
					t.Errorf("got the Gadgets %q, want %q", left, c.left)
				}
				if n := len(controltest.List[*corev1.Namespace](p)); n != 1 {
					t.Errorf("got %d namespaces, want 1", n)
				}
			})
		})
	}
}

// TestAnAPIThatDoesNotAnswer keeps a namespace, with Kubernetes' condition, while a server does not say which
// resources it has, and deletes all the rest.
func TestAnAPIThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		serveGadgets(p)
		p.Load(controltest.APIService("example.com", "v1", 10))
		p.Remove(controltest.Get[*corev1.Pod](p, "x", "p"))
		remove(t, p, "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		got := condition(controltest.Get[*corev1.Namespace](p, "", "x"), corev1.NamespaceDeletionDiscoveryFailure)
		want := "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: " +
			"example.com/v1: the server is currently unable to handle the request"
		if got.Status != corev1.ConditionTrue || got.Reason != "DiscoveryFailed" || got.Message != want {
			t.Errorf("got the condition %+v, want %s", got, want)
		}
		left, _, err := client.Of[*corev1.ConfigMap](p.Client).List(t.Context(), "x", metav1.ListOptions{})
		if err != nil || len(left) > 0 {
			t.Errorf("got %d ConfigMaps, %v", len(left), err)
		}
		serveGadgets(p, "delete", "deletecollection", "list")
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if n := len(controltest.List[*corev1.Namespace](p)); n != 1 {
			t.Errorf("got %d namespaces, want 1", n)
		}
	})
}
