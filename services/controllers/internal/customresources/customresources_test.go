package customresources_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, p *controltest.Plane) *customresources.Definitions {
	t.Helper()
	p.Allow("list watch apiextensions.k8s.io/customresourcedefinitions")
	d := customresources.New(p.Deps())
	p.Add(d.Follow)
	p.Start()
	return d
}

// custom returns the custom kinds of a plane's table, as version/resource.
func custom(p *controltest.Plane) (names []string, kinds []*scheme.Kind) {
	for _, kind := range p.Table().Kinds() {
		if kind.Custom {
			names, kinds = append(names, kind.Version+"/"+kind.GroupResource().String()), append(kinds, kind)
		}
	}
	slices.Sort(names)
	return names, kinds
}

func expect(t *testing.T, p *controltest.Plane, want ...string) []*scheme.Kind {
	t.Helper()
	synctest.Wait()
	names, kinds := custom(p)
	if !slices.Equal(names, want) {
		t.Errorf("got the kinds %q, want %q", names, want)
	}
	return kinds
}

// TestTheTableIsInStep changes definitions, and checks the table after each change.
func TestTheTableIsInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, controltest.Definition("Gadget", "v1"))
		pending := controltest.Definition("Widget", "v1")
		pending.Status.Conditions = nil
		d := start(t, p)
		time.Sleep(time.Second)
		select {
		case <-d.Done():
		default:
			t.Error("the first whole view is not there")
		}
		first := expect(t, p, "v1/gadgets.example.com")

		p.Load(pending)
		time.Sleep(time.Second)
		expect(t, p, "v1/gadgets.example.com")
		p.Load(controltest.Definition("Widget", "v1"))
		time.Sleep(time.Second)
		expect(t, p, "v1/gadgets.example.com", "v1/widgets.example.com")

		// Nothing that concerns the kinds: they stay the same.
		changed := controltest.Definition("Gadget", "v1")
		changed.Labels = map[string]string{"a": "b"}
		p.Load(changed)
		time.Sleep(time.Second)
		if now := expect(t, p, "v1/gadgets.example.com", "v1/widgets.example.com"); !slices.Contains(now, first[0]) {
			t.Error("the kind was replaced without need")
		}
		p.Load(controltest.Definition("Gadget", "v1", "v2"))
		time.Sleep(time.Second)
		expect(t, p, "v1/gadgets.example.com", "v1/widgets.example.com", "v2/gadgets.example.com")

		// Another definition of the same name has other objects.
		again := controltest.Definition("Gadget", "v1")
		again.UID = types.UID("another")
		p.Load(again)
		time.Sleep(time.Second)
		if now := expect(t, p, "v1/gadgets.example.com", "v1/widgets.example.com"); slices.Contains(now, first[0]) {
			t.Error("the kind is still that of the definition before")
		}
		p.Remove(again)
		time.Sleep(time.Second)
		expect(t, p, "v1/widgets.example.com")
	})
}

// TestNamesChangeHands gives the names of a definition to another one. Until they are free, the kinds of the
// others are there.
func TestNamesChangeHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, controltest.Definition("Gadget", "v1"))
		start(t, p)
		time.Sleep(time.Second)
		thief := controltest.Definition("Gadget", "v1")
		thief.Name, thief.UID = "another.example.com", "another"
		p.Load(thief, controltest.Definition("Widget", "v1"))
		time.Sleep(time.Second)
		before := expect(t, p, "v1/gadgets.example.com", "v1/widgets.example.com")
		p.Remove(controltest.Definition("Gadget", "v1"))
		time.Sleep(5 * time.Second)
		after := expect(t, p, "v1/gadgets.example.com", "v1/widgets.example.com")
		if len(before) == 2 && len(after) == 2 && before[0] == after[1] {
			t.Error("the kind is still that of the former owner of its names")
		}
	})
}

// TestRefresh checks that a kind which the informer has not heard of is in the table after Refresh.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "CustomResourceDefinition", 3*time.Second)
		d := start(t, p)
		time.Sleep(10 * time.Second)
		p.Load(controltest.Definition("Gadget", "v1"))
		expect(t, p)
		if err := d.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		expect(t, p, "v1/gadgets.example.com")
		p.Load(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "nothing"}})
		if err := d.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		expect(t, p, "v1/gadgets.example.com")
	})
}
