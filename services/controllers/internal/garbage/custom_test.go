package garbage

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func gadget(name string, owners ...metav1.OwnerReference) scheme.Object {
	return controltest.Custom("Gadget", meta("default", name, owners...))
}

func ofGadget(name string) metav1.OwnerReference {
	return owner("example.com/v1", "Gadget", name, true)
}

func config(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta("default", name, owners...)}
}

// customFamily loads a custom resource between two ConfigMaps.
func customFamily(t *testing.T, p *controltest.Plane) {
	t.Helper()
	p.Load(config("top"))
	controltest.LoadCustom(p, controltest.Definition("Gadget", "v1"), gadget("g", owner("v1", "ConfigMap", "top", true)))
	p.Load(config("leaf", ofGadget("g")), controltest.Definition("Gadget", "v1"))
	settle()
	wantCustom(t, p, "g", "leaf", "top")
}

// wantCustom checks which Gadgets and ConfigMaps are left.
func wantCustom(t *testing.T, p *controltest.Plane, wanted ...string) {
	t.Helper()
	got := controltest.CustomNames(p, controltest.Definition("Gadget", "v1"))
	for _, one := range controltest.List[*corev1.ConfigMap](p) {
		got = append(got, one.Name)
	}
	if slices.Sort(got); !slices.Equal(got, wanted) {
		t.Errorf("got %q left, want %q", got, wanted)
	}
}

// TestCustomResources deletes a custom resource's owner, and the custom resource, in each way.
func TestCustomResources(t *testing.T) {
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
				customFamily(t, p)
				kind := scheme.For[*corev1.ConfigMap](p.Table())
				if c.remove == "g" {
					kind = p.Table().KindOf(gadget("g"))
				}
				p.ClearCalls()
				err := p.Do(t.Context(), client.Call{
					Verb: "delete", Kind: kind, Namespace: "default", Name: c.remove, Options: &metav1.DeleteOptions{PropagationPolicy: &c.policy},
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				settle()
				wantCustom(t, p, c.left...)
				for _, call := range p.Writes() {
					if call.Kind.Custom && call.PatchType == "application/strategic-merge-patch+json" {
						t.Error("a custom resource has no strategic patches")
					}
				}
			})
		})
	}
}

// TestAKindThatComesLater keeps an object while its owner's kind is not known, and collects it once the owner is
// known to be absent.
func TestAKindThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, config("leaf", ofGadget("never")), config("both", ofGadget("never"), owner("v1", "ConfigMap", "nobody", true)))
		p.ClearCalls()
		time.Sleep(time.Hour)
		settle()
		wantCustom(t, p, "both", "leaf")
		if writes := p.Writes(); len(writes) > 0 {
			t.Errorf("got %d writes, want none: %v", len(writes), writes[0])
		}
		p.Load(controltest.Definition("Gadget", "v1"))
		settle()
		wantCustom(t, p)
	})
}

// TestAKindThatGoes removes a definition: dependents of an object that was deleted before are collected, those
// of one that was not are kept.
func TestAKindThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		customFamily(t, p)
		definition := controltest.Definition("Gadget", "v1")
		controltest.LoadCustom(p, definition, gadget("kept"))
		p.Load(config("keeper", ofGadget("kept")))
		settle()
		p.Remove(gadget("g"))
		p.Remove(definition)
		settle()
		wantCustom(t, p, "keeper", "kept", "top")
		if p.Table().KindOf(gadget("g")) != nil {
			t.Error("the table has the kind still")
		}
		// It comes back, with another version to ask for.
		definition = controltest.Definition("Gadget", "v1", "v2")
		definition.UID, definition.Spec.Versions[0].Served = "another", false
		p.Load(definition)
		settle()
		p.ClearCalls()
		p.Remove(gadget("kept"))
		settle()
		wantCustom(t, p, "top")
		for _, call := range p.Calls() {
			if call.Kind.Custom && call.Kind.Unserved {
				t.Errorf("got a %s of a version that is not served", call.Verb)
			}
		}
	})
}

// TestAnApiserverThatDoesNotKnowTheKind keeps the dependents of an object of which an apiserver only says that
// it does not serve its kind.
func TestAnApiserverThatDoesNotKnowTheKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		customFamily(t, p)
		p.Fail(func(call client.Call) error {
			if call.Kind.Custom && call.Verb == "get" {
				return scheme.ErrRemoved
			}
			return nil
		})
		// Another reference, so that the object is looked at.
		p.Load(config("late", ofGadget("g"), owner("v1", "ConfigMap", "nobody", true)))
		settle()
		wantCustom(t, p, "g", "late", "leaf", "top")
		if refs := controltest.Get[*corev1.ConfigMap](p, "default", "late").OwnerReferences; len(refs) != 2 {
			t.Errorf("got the owners %v", refs)
		}
		p.Fail(nil)
		time.Sleep(30 * time.Minute)
		settle()
		if refs := controltest.Get[*corev1.ConfigMap](p, "default", "late").OwnerReferences; len(refs) != 1 {
			t.Errorf("got the owners %v", refs)
		}
	})
}
