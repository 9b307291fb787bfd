package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	celtypes "github.com/google/cel-go/common/types"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// invocation is a webhook that is to be called for a request, and what it is shown.
type invocation struct {
	*hook
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
}

// showing returns the request's objects as a kind.
type showing func(kind schema.GroupVersionKind) (*shown, error)

// match returns the invocation of a webhook; nil if the webhook is not called for the request. object is
// the present state of the request's object. As in Kubernetes, a selector that cannot be evaluated is
// an error only if the rules match.
func (p *plugin) match(ctx context.Context, r *request, h *hook, object scheme.Object, show showing) (*invocation, error) {
	inNamespace, namespaceErr := p.matchesNamespace(ctx, r, h, object)
	if !inNamespace && namespaceErr == nil {
		return nil, nil
	}
	if h.objectsErr == nil && !h.objects.Empty() && !hasLabels(object, h.objects) && !hasLabels(r.Old, h.objects) {
		return nil, nil
	}
	found := p.matchRules(r, h)
	switch {
	case found == nil:
		return nil, nil
	case namespaceErr != nil:
		return nil, namespaceErr
	case h.objectsErr != nil:
		return nil, apierrors.NewInternalError(h.objectsErr)
	case len(h.conditions) == 0:
		return found, nil
	}
	objects, err := show(found.kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	matches, err := p.meetsConditions(ctx, r, h, objects)
	switch {
	case err != nil:
		p.log.Warn("evaluating the match conditions of a webhook failed", "configuration", h.configuration, "webhook", h.name, "err", err)
		return nil, apierrors.NewForbidden(r.Kind.GroupResource(), r.Name, err)
	case !matches:
		p.metrics.excluded(h.name, r.operation)
		return nil, nil
	}
	return found, nil
}

// matchRules returns the invocation by the first of a webhook's rules that matches the request or,
// with the match policy Equivalent, the same object in another version.
func (p *plugin) matchRules(r *request, h *hook) *invocation {
	own := r.Kind.GroupVersionResource()
	for _, rule := range h.rules {
		if (&rules.Matcher{Rule: rule, Attr: r.attributes}).Matches() {
			return &invocation{h, own, r.attributes.GetKind()}
		}
	}
	if !h.equivalent {
		return nil
	}
	others := admission.Equivalents(p.cfg.Objects.Table, r.Kind, r.Subresource)[1:]
	for _, rule := range h.rules {
		for _, other := range others {
			resource := other.GroupVersionResource()
			if !(&rules.Matcher{Rule: rule, Attr: withResource{r.attributes, resource}}).Matches() {
				continue
			}
			kind := other.GroupVersionKind
			if s := other.Subresource(r.Subresource); s != nil {
				kind = s.Kind
			}
			return &invocation{h, resource, kind}
		}
	}
	return nil
}

// withResource are attributes as those of a request for another resource.
type withResource struct {
	k8sadmission.Attributes
	resource schema.GroupVersionResource
}

// GetResource returns the other resource.
func (w withResource) GetResource() schema.GroupVersionResource { return w.resource }

// matchesNamespace reports whether a webhook's namespaceSelector matches. Objects outside namespaces
// are matched, but for Namespaces, which are selected by their own labels.
func (p *plugin) matchesNamespace(ctx context.Context, r *request, h *hook, object scheme.Object) (bool, error) {
	name := r.attributes.GetNamespace()
	if name == "" && r.Kind.Resource != "namespaces" {
		return true, nil
	}
	if h.namespacesErr != nil {
		return false, apierrors.NewInternalError(h.namespacesErr)
	}
	if h.namespaces.Empty() {
		return true, nil
	}
	if r.Kind.Resource == "namespaces" && r.Subresource == "" && object != nil {
		return h.namespaces.Matches(labels.Set(object.GetLabels())), nil
	}
	namespace, err := admission.Get[*corev1.Namespace](ctx, p.cfg.Objects, "", name)
	switch {
	case apierrors.IsNotFound(err):
		return false, err
	case err != nil:
		return false, apierrors.NewInternalError(err)
	}
	return h.namespaces.Matches(labels.Set(namespace.Labels)), nil
}

func hasLabels(obj scheme.Object, selector labels.Selector) bool {
	return obj != nil && selector.Matches(labels.Set(obj.GetLabels()))
}

// meetsConditions reports whether all of a webhook's match conditions hold. One that is false outweighs
// those that fail.
func (p *plugin) meetsConditions(ctx context.Context, r *request, h *hook, objects *shown) (bool, error) {
	began := time.Now()
	defer func() { p.metrics.evaluated(h.name, r.operation, time.Since(began)) }()
	about := cel.CreateAdmissionRequest(r.attributes, metav1.GroupVersionResource(r.Kind.GroupVersionResource()),
		metav1.GroupVersionKind(objects.kind))
	results, _, err := h.evaluator(p.compiler).ForInput(ctx, objects.attributes, about,
		cel.OptionalVariableBindings{Authorizer: p.authorizer}, nil, celconfig.RuntimeCELCostBudgetMatchConditions)
	if err != nil {
		return false, h.unless(err)
	}
	var errs []error
	for _, result := range results {
		if result.Error != nil {
			errs = append(errs, result.Error)
			p.metrics.conditionFailed(h.name, r.operation)
		}
		if result.EvalResult == celtypes.False {
			return false, nil
		}
	}
	if len(errs) > 0 {
		return false, h.unless(utilerrors.NewAggregate(errs))
	}
	return true, nil
}

// unless returns err unless the webhook's failures are ignored.
func (h *hook) unless(err error) error {
	if h.ignored {
		return nil
	}
	return err
}

// configures reports whether a request is about an object that configures admission. Only webhooks of files
// are asked about it, since another could keep itself from being removed.
func configures(req *admission.Request) bool {
	return req.Kind.Group == registrationv1.GroupName && rules.IsExemptAdmissionConfigurationResource(kinded{kind: req.Kind.GroupVersionKind})
}

// isReview reports whether a request is a review, without which nobody could log in: no webhook is asked.
func isReview(req *admission.Request) bool {
	switch req.Kind.Group {
	case "authentication.k8s.io", "authorization.k8s.io":
		return req.Kind.Virtual
	}
	return false
}

// kinded are attributes of which only the kind is asked.
type kinded struct {
	k8sadmission.Attributes
	kind schema.GroupVersionKind
}

// GetKind returns the kind.
func (k kinded) GetKind() schema.GroupVersionKind { return k.kind }

var errTimeout = errors.New("request did not complete within requested timeout")

// timedOut returns an error if ctx has ended: no other webhook can be asked.
func timedOut(ctx context.Context) error {
	if ctx.Err() != nil {
		return apierrors.NewTimeoutError(errTimeout.Error(), 0)
	}
	return nil
}

func internal(format string, arguments ...any) error {
	return apierrors.NewInternalError(fmt.Errorf(format, arguments...))
}
