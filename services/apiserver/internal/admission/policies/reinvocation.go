package policies

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// reinvocation decides which policies are applied again when the plugins that mutate run for the second
// time: those with the reinvocationPolicy IfNeeded after which something has changed the object.
type reinvocation struct {
	// output is the object as the policies left it.
	output runtime.Object
	// invoked were applied since the last change; again are to be applied again.
	invoked, again map[invocationKey]bool
}

// invocationKey identifies an evaluation of a policy.
type invocationKey struct {
	policy, binding       string
	paramNamespace, param string
}

const mutatingName = "MutatingAdmissionPolicy"

// reinvocationOf returns the state of a request, from the first run if this is the second.
func reinvocationOf(req *admission.Request) *reinvocation {
	if kept, ok := req.Kept(mutatingName).(*reinvocation); ok {
		return kept
	}
	state := &reinvocation{invoked: map[invocationKey]bool{}, again: map[invocationKey]bool{}}
	req.Keep(mutatingName, state)
	return state
}

// require has the policies that were applied so far be applied again, since the object has changed.
func (r *reinvocation) require() {
	maps.Copy(r.again, r.invoked)
	clear(r.invoked)
}
