// Package differences lists in what the apiserver's rules for kinds differ from Kubernetes' and stay so,
// because no user is hurt.
package differences

import "slices"

// Difference is one point in which kinds differ.
type Difference struct {
	// What is the aspect and the field, as the comparison with Kubernetes names them.
	What string
	// Kinds are the kinds, as "apps/v1 Deployment"; all kinds if empty.
	Kinds []string
	// Text says what differs, and Why why no user is hurt.
	Text, Why string
}

// All returns all differences. A test in this package shows for each that no user is hurt.
func All() []Difference {
	return []Difference{{
		What: "error metadata.generateName",
		Text: "an invalid generateName beside a name is rejected or accepted where Kubernetes does the opposite",
		Why:  "nothing reads the prefix once there is a name, and an unchanged one is always accepted",
	}, {
		What: "error spec.ports[].nodePort", Kinds: []string{"v1 Service"},
		Text: "a new service that repeats a port gets no error about the node port that Kubernetes would allocate to both ports",
		Why:  "both reject the service and name the repeated port, and an error names each repeated node port that the client chose",
	}, {
		What: "error metadata.finalizers[]", Kinds: []string{"batch/v1 CronJob"},
		Text: "an update of the status that adds a malformed finalizer is rejected, where Kubernetes stores it",
		Why:  "creation and updates reject such a finalizer in Kubernetes too, and the finalizers of a cron job stay changeable",
	}}
}

// Known reports whether a difference is listed for a kind.
func Known(kind, what string) bool {
	return slices.ContainsFunc(All(), func(d Difference) bool {
		return d.What == what && (len(d.Kinds) == 0 || slices.Contains(d.Kinds, kind))
	})
}
