package scheme

import (
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Subresource is what a kind serves below each of its objects under one name.
type Subresource struct {
	// Name is the last part of the path, for example "status".
	Name string
	// Kind is the kind that requests and responses hold. The table sets it to the kind itself if it
	// is empty.
	Kind schema.GroupVersionKind
	// Verbs are the verbs that are served, sorted.
	Verbs []string
	// Virtual subresources store nothing: creating one returns its answer.
	Virtual bool
	// Proxy marks a subresource whose path goes on: everything below it is passed on to what the object stands
	// for, with any method.
	Proxy bool
	// LongRunning requests last as long as their client wants. They have no deadline and take no
	// slot of the requests in flight.
	LongRunning bool
}

// The verbs of kinds and subresources, sorted as in Kubernetes. They are shared and must not be
// changed.
var (
	verbsOfStored   = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	verbsOneByOne   = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	verbsOfObserved = []string{"get", "list"}
	verbsOfVirtual  = []string{"create"}
	verbsOfPart     = []string{"get", "patch", "update"}
	verbsOfProxy    = []string{"create", "delete", "get", "patch", "update"}
)

// Verbs returns the verbs of the kind itself, sorted. The slice is shared and must not be changed.
func (k *Kind) Verbs() []string {
	switch {
	case k.Observed:
		return verbsOfObserved
	case k.Virtual:
		return verbsOfVirtual
	case k.DeletedOneByOne:
		return verbsOneByOne
	}
	return verbsOfStored
}

// Subresource returns the subresource of a name; nil if the kind does not serve it. It is shared and
// must not be changed.
func (k *Kind) Subresource(name string) *Subresource {
	for i := range k.Subresources {
		if k.Subresources[i].Name == name {
			return &k.Subresources[i]
		}
	}
	return nil
}

// HasSubresource reports whether the kind serves the named subresource.
func (k *Kind) HasSubresource(name string) bool { return k.Subresource(name) != nil }

// Special reports whether the subresource is more than a part of the kind's objects that clients
// read and write as such an object: something must serve it that knows what it is.
func (s *Subresource) Special(of *Kind) bool {
	return s.LongRunning || s.Virtual || s.Kind != of.GroupVersionKind ||
		slices.ContainsFunc(s.Verbs, func(verb string) bool { return !slices.Contains(verbsOfPart, verb) })
}

// Connects reports whether the subresource connects clients to something, for as long as they like, and
// Kind is that of the options in their query.
func (s *Subresource) Connects() bool { return s.LongRunning && s.Virtual }

// completeSubresources sets the kinds of the subresources that have none. It returns an error if one
// has no name or verbs, the name of another, or another kind that is not among types.
func (k *Kind) completeSubresources(types *runtime.Scheme) error {
	for i := range k.Subresources {
		s := &k.Subresources[i]
		if s.Kind.Empty() {
			s.Kind = k.GroupVersionKind
		}
		if s.Name == "" || len(s.Verbs) == 0 {
			return fmt.Errorf("installing the kind %s: its subresource %q must have a name and verbs", k.GroupVersionKind, s.Name)
		}
		if s.Kind != k.GroupVersionKind && !types.Recognizes(s.Kind) {
			return fmt.Errorf("installing the kind %s: its subresource %q holds %s, which is not known", k.GroupVersionKind, s.Name, s.Kind)
		}
		if k.Subresource(s.Name) != s {
			return fmt.Errorf("installing the kind %s: it has two subresources %q", k.GroupVersionKind, s.Name)
		}
	}
	return nil
}

// part is a subresource that reads and writes a part of an object, in the form of the whole object.
func part(name string) Subresource { return Subresource{Name: name, Verbs: verbsOfPart} }

func status() Subresource { return part("status") }

// finalize writes the finalizers of a namespace's spec.
func finalize() Subresource { return Subresource{Name: "finalize", Verbs: []string{"update"}} }

func scale() Subresource {
	return Subresource{Name: "scale", Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Verbs: verbsOfPart}
}

func binding() Subresource {
	return Subresource{Name: "binding", Kind: corev1.SchemeGroupVersion.WithKind("Binding"), Verbs: verbsOfVirtual}
}

func eviction() Subresource {
	return Subresource{Name: "eviction", Kind: policyv1.SchemeGroupVersion.WithKind("Eviction"), Verbs: verbsOfVirtual}
}

// connection is a subresource of pods that connects a client to something on the pod's node; options is the
// kind of what its query says.
func connection(name, options string) Subresource {
	return Subresource{
		Name: name, Kind: corev1.SchemeGroupVersion.WithKind(options), Verbs: []string{"create", "get"}, Virtual: true, LongRunning: true,
	}
}

// proxy is a subresource that passes requests on to what an object stands for; options is the kind of what
// its query says.
func proxy(options string) Subresource {
	s := connection("proxy", options)
	s.Verbs, s.Proxy = verbsOfProxy, true
	return s
}

func logs() Subresource { return Subresource{Name: "log", Verbs: []string{"get"}, LongRunning: true} }

func token() Subresource {
	return Subresource{
		Name: "token", Kind: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"), Verbs: verbsOfVirtual, Virtual: true,
	}
}
