package webhooks

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// rounds is what the plugin remembers of a request between its two runs, by the webhooks' identities.
type rounds struct {
	// asked are the webhooks that may be asked again, and were asked before the last change.
	asked map[string]bool
	// wanted are those to be asked again.
	wanted map[string]bool
	// last is the object after the run before; nil if there was none.
	last runtime.Object
}

const rounding = "MutatingAdmissionWebhook"

func roundsOf(req *admission.Request) *rounds {
	if kept, ok := req.Kept(rounding).(*rounds); ok {
		return kept
	}
	r := &rounds{asked: map[string]bool{}, wanted: map[string]bool{}}
	req.Keep(rounding, r)
	return r
}

// changed is called when the object has changed: all that were asked before want to be asked again.
func (r *rounds) changed() {
	maps.Copy(r.wanted, r.asked)
	clear(r.asked)
}

// begin begins the second run. The object changed in between if other plugins changed it.
func (r *rounds) begin(object scheme.Object) {
	if len(r.asked) > 0 && !apiequality.Semantic.DeepEqual(r.last, runtime.Object(object)) {
		r.changed()
	}
}

// end ends a run. The object is remembered only if it matters.
func (r *rounds) end(object scheme.Object) {
	if len(r.asked) > 0 && object != nil {
		r.last = object.DeepCopyObject()
	}
}
