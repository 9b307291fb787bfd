package garbage

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// serveGadgets makes Gadgets a kind of another server.
func serveGadgets(p *controltest.Plane) {
	p.OnDocument(func(path string) ([]byte, error) {
		if path != "/apis/example.com/v1" {
			return nil, errors.New("nothing is there")
		}
		return p.Resources(schema.GroupVersion{Group: "example.com", Version: "v1"}, metav1.APIResource{
			Name: "gadgets", Kind: "Gadget", Namespaced: true, Verbs: []string{"delete", "get", "list", "patch", "watch"},
		}), nil
	})
}

// remoteFamily loads a Gadget of another server between two ConfigMaps.
func remoteFamily(t *testing.T, p *controltest.Plane) *scheme.Kind {
	t.Helper()
	serveGadgets(p)
	p.Load(config("top"))
	// While it is loaded, the table has the kind.
	controltest.LoadCustom(p, controltest.Definition("Gadget", "v1"), gadget("g", owner("v1", "ConfigMap", "top", true)))
	p.Load(controltest.APIService("example.com", "v1", 10), config("leaf", ofGadget("g")))
	settle()
	wantCustom(t, p, "g", "leaf", "top")
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
	return &scheme.Kind{GroupVersionKind: gvk, Storage: gvk, Custom: true, Resource: "gadgets", Namespaced: true}
}

// TestAggregated deletes an object of another server, or its owner, in each way.
func TestAggregated(t *testing.T) {
	for name, c := range map[string]struct {
		remove string
		policy metav1.DeletionPropagation
		left   []string
	}{
		"owner, background":  {"top", metav1.DeletePropagationBackground, nil},
		"owner, foreground":  {"top", metav1.DeletePropagationForeground, nil},
		"owner, orphan":      {"top", metav1.DeletePropagationOrphan, []string{"g", "leaf"}},
		"itself, background": {"g", metav1.DeletePropagationBackground, []string{"top"}},
		"itself, foreground": {"g", metav1.DeletePropagationForeground, []string{"top"}},
		"itself, orphan":     {"g", metav1.DeletePropagationOrphan, []string{"leaf", "top"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				kind := remoteFamily(t, p)
				if c.remove != "g" {
					kind = scheme.For[*corev1.ConfigMap](p.Table())
				}
				err := p.Do(t.Context(), client.Call{
					Verb: "delete", Kind: kind, Namespace: "default", Name: c.remove, Options: &metav1.DeleteOptions{PropagationPolicy: &c.policy},
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				settle()
				wantCustom(t, p, c.left...)
			})
		})
	}
}

// TestAServerThatIsAway keeps the dependents of what another server holds while that does not answer, and the rest is
// collected.
func TestAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		remoteFamily(t, p)
		p.OnDocument(func(string) ([]byte, error) { return nil, errors.New("away") })
		p.Fail(func(call client.Call) error {
			if call.Kind.Kind == "Gadget" {
				return errors.New("away")
			}
			return nil
		})
		p.CloseWatches()
		p.Load(config("late", ofGadget("g"), owner("v1", "ConfigMap", "nobody", true)), config("other", owner("v1", "ConfigMap", "nobody", true)))
		time.Sleep(5 * time.Minute)
		settle()
		p.Fail(nil)
		wantCustom(t, p, "g", "late", "leaf", "top")
		serveGadgets(p)
		time.Sleep(30 * time.Minute)
		settle()
		if refs := controltest.Get[*corev1.ConfigMap](p, "default", "late").OwnerReferences; len(refs) != 1 {
			t.Errorf("got the owners %v", refs)
		}
		// Without its APIService nothing is known of Gadgets any more: what they own stays.
		p.Remove(controltest.APIService("example.com", "v1", 10))
		settle()
		p.Load(config("later", ofGadget("never")))
		time.Sleep(time.Hour)
		settle()
		wantCustom(t, p, "g", "late", "later", "leaf", "top")
	})
}

// TestRevisionsOfAnotherServer checks that nothing waits for a revision of another server.
func TestRevisionsOfAnotherServer(t *testing.T) {
	g := newGraph()
	kind := &scheme.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}, Custom: true, Resource: "gadgets"}
	g.begin(kind, func(int64) {})
	far := gadget("g")
	far.SetResourceVersion("9000000000000000000")
	sink{graph: g, kind: kind, remote: true}.put(far)
	if found, _, ok := g.find("g-uid"); !ok || found.revision != 0 {
		t.Errorf("got %+v, %t", found, ok)
	}
}
