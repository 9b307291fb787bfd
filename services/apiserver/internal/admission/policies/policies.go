// Package policies evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies: it refuses,
// warns of, records and changes writes as their CEL expressions say.
//
// Kubernetes' own libraries compile and evaluate the expressions, within Kubernetes' limits of cost.
// Which policies there are, and what they read, comes from the watch caches: a policy is in force as
// soon as the cache has it.
package policies

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	Definitions admission.Definitions
	// Authorizer answers expressions that ask what a user may do. If it is nil, users may do nothing.
	Authorizer authz.Authorizer
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
}

// engine is what both plugins share. It is safe for concurrent use.
type engine struct {
	objects     admission.Objects
	definitions admission.Definitions
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

// exempt reports whether no policy applies to a kind: policies and bindings, so that nobody locks
// themselves out, and the questions that authentication and authorization depend on.
func exempt(kind *scheme.Kind) bool {
	switch kind.Group {
	case admissionregistrationv1.GroupName:
		switch kind.Resource {
		case "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
			return true
		}
	case authenticationv1.GroupName, authorizationv1.GroupName:
		return kind.Virtual
	}
	return false
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
