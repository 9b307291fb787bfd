package resourcequota

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
)

// TestCustomResourcesAreCounted counts custom resources from the moment that their kind is known.
func TestCustomResourcesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		definitions := customresources.New(p.Deps())
		p.Add(definitions.Follow)
		start(t, p)
		p.Load(limit("count/gadgets.example.com=3 pods=2"))
		time.Sleep(time.Second)
		expect(t, p, "before the kind is known", "pods=0")

		gadgets := controltest.Definition("Gadget", "v1", "v2")
		gadgets.Spec.Versions[0].Served = false
		controltest.LoadCustom(p, gadgets, controltest.Custom("Gadget", meta("a")), controltest.Custom("Gadget", meta("b")))
		p.Load(gadgets)
		time.Sleep(time.Second)
		expect(t, p, "when it is known", "count/gadgets.example.com=2 pods=0")

		var asked int
		p.Fail(func(call client.Call) error {
			if call.Kind.Custom && (call.Kind.Unserved || call.Verb == "list") {
				asked++
			}
			return nil
		})
		p.Remove(controltest.Custom("Gadget", meta("a")))
		time.Sleep(time.Second)
		expect(t, p, "after a deletion", "count/gadgets.example.com=1 pods=0")

		// What was counted stays in the status when the kind has gone, and nobody follows it.
		p.Remove(gadgets)
		time.Sleep(time.Hour)
		expect(t, p, "after the kind has gone", "count/gadgets.example.com=1 pods=0")
		p.ClearCalls()
		p.CloseWatches()
		time.Sleep(time.Hour)
		for _, call := range p.Calls() {
			if call.Kind.Custom {
				t.Errorf("got a %s of %s, which has gone", call.Verb, call.Kind.Resource)
			}
		}
		if asked > 0 {
			t.Errorf("a version was asked for that is not served")
		}
		again := controltest.Definition("Gadget", "v1")
		again.ObjectMeta = metav1.ObjectMeta{Name: again.Name, UID: "another"}
		p.Load(again)
		time.Sleep(time.Second)
		expect(t, p, "when it is back", "count/gadgets.example.com=1 pods=0")
	})
}
