// Package policies evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies: it refuses,
// warns of, records and changes writes as their CEL expressions say.
//
// Kubernetes' own libraries compile and evaluate the expressions, within Kubernetes' limits of cost.
// Which policies there are, and what they read, comes from the watch caches: a policy is in force as
// soon as the cache has it.
package policies

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	k8sadmission "k8s.io/apiserver/pkg/admission"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Config configures the plugins.
type Config struct {
	// Objects are the policies, their bindings and their parameters, and the namespaces.
	Objects admission.Objects
	// Definitions convert objects for policies that match an equivalent kind, and apply mutations.
	Definitions Definitions
	// Authorizer answers expressions that ask what a user may do. If it is nil, users may do nothing.
	Authorizer authz.Authorizer
	// Document is the plugin's configuration, of the kind PLUGINConfiguration; it may be empty.
	Document []byte
	// Identity names the apiserver in metrics.
	Identity string
	// Logger receives failed reloads of policies in files; slog.Default if nil.
	Logger *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Definitions is what the definitions of kinds do with objects.
type Definitions interface {
	// Complete removes from obj fields that its kind does not have, and sets those that a client may omit.
	// An object of a kind that is not stored stays as it is.
	Complete(obj scheme.Object)
	// Convert returns obj as another kind that is stored as the same one. It leaves obj as it is.
	Convert(obj scheme.Object, to *scheme.Kind) (scheme.Object, error)
	// TypeConverter merges what is applied into objects, by the schemas of their kinds.
	managedfields.TypeConverter
}

// engine is what both plugins share. It is safe for concurrent use.
type engine struct {
	objects     admission.Objects
	definitions Definitions
	authorizer  authorizer
	metrics     *metrics
	equivalents *scheme.Derived[runtime.EquivalentResourceRegistry]
}

func newEngine(cfg Config) *engine {
	return &engine{
		objects: cfg.Objects, definitions: cfg.Definitions, authorizer: authorizer{cfg.Authorizer},
		metrics: newMetrics(cfg.Registerer), equivalents: scheme.Derive(cfg.Objects.Table, equivalents),
	}
}

// configures reports whether a kind is one of policies or bindings. Only policies of files apply to these,
// so that nobody locks themselves out.
func configures(kind *scheme.Kind) bool {
	if kind.Group != admissionregistrationv1.GroupName {
		return false
	}
	switch kind.Resource {
	case "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
		return true
	}
	return false
}

// review reports whether no policy applies to a kind: to the questions that authentication and
// authorization depend on.
func review(kind *scheme.Kind) bool {
	return kind.Virtual && (kind.Group == authenticationv1.GroupName || kind.Group == authorizationv1.GroupName)
}

// namespaceObject returns the namespace of a request's object; nil if it has none, or is a namespace.
func (e *engine) namespaceObject(ctx context.Context, a k8sadmission.Attributes) (*corev1.Namespace, error) {
	if a.GetNamespace() == "" || a.GetKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return nil, nil
	}
	return admission.Get[*corev1.Namespace](ctx, e.objects, "", a.GetNamespace())
}

// equivalents returns which resources of kinds hold the same objects in different forms.
func equivalents(kinds []*scheme.Kind) runtime.EquivalentResourceRegistry {
	stored := map[schema.GroupResource]string{}
	for _, kind := range kinds {
		stored[kind.GroupResource()] = kind.Storage.GroupKind().String()
	}
	registry := runtime.NewEquivalentResourceRegistryWithIdentity(func(resource schema.GroupResource) string { return stored[resource] })
	for _, kind := range kinds {
		registry.RegisterKindFor(kind.GroupVersionResource(), "", kind.GroupVersionKind)
		for _, sub := range kind.Subresources {
			registry.RegisterKindFor(kind.GroupVersionResource(), sub.Name, sub.Kind)
		}
	}
	return registry
}
