package deletion

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// One is the deletion of one object.
type One struct {
	// Namespace and Name locate the object.
	Namespace, Name string
	// Options are the client's.
	Options metav1.DeleteOptions
	// Within is the namespace of the request. Collection reports that the request deletes a collection, whose
	// objects it does not name.
	Within     string
	Collection bool
}

// Request returns the question to admission plugins about the present object, without the object itself. As in
// Kubernetes, a request for a single object shows how long that may still run, and one for a collection what the
// client sent.
func (o *One) Request(as *scheme.Kind, kind *kinds.Definition, current scheme.Object) *admission.Request {
	req := &admission.Request{Verb: admission.Delete, Kind: as, Namespace: o.Within, DryRun: len(o.Options.DryRun) > 0}
	if o.Collection {
		req.Options = admission.DeleteOptions(o.Options)
		return req
	}
	req.Name, req.Options = o.Name, admission.DeleteOptions(settled(kind, current, o.Options))
	return req
}

// settled returns opts with the grace period that Mark gives current, if it gives one. It is what BeforeDelete of
// Kubernetes makes of them.
func settled(kind *kinds.Definition, current scheme.Object, opts metav1.DeleteOptions) metav1.DeleteOptions {
	opts = withoutNegative(opts)
	if kind.Grace != nil && current.GetDeletionTimestamp() == nil {
		if period := kind.Grace(current, &opts); period != nil {
			opts.GracePeriodSeconds = period
		}
	}
	return opts
}

// withoutNegative returns opts with one second in place of a negative period.
func withoutNegative(opts metav1.DeleteOptions) metav1.DeleteOptions {
	if opts.GracePeriodSeconds != nil && *opts.GracePeriodSeconds < 0 {
		one := int64(1)
		opts.GracePeriodSeconds = &one
	}
	return opts
}
