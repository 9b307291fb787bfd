package podsecurity

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Plugin returns the plugin PodSecurity. document is its PodSecurityConfiguration, which may be
// empty.
func Plugin(objects admission.Objects, document []byte) (admission.Plugin, error) {
	settings, err := Load(document)
	if err != nil {
		return admission.Plugin{}, err
	}
	checker, err := New()
	if err != nil {
		return admission.Plugin{}, err
	}
	g := guard{Settings: settings, objects: objects, checker: checker}
	return admission.Plugin{Validate: g.validate}, nil
}

// guard is the plugin.
type guard struct {
	Settings
	objects admission.Objects
	checker *Checker
}

// validate enforces the standard that a namespace chooses for its pods. It warns about workloads
// whose pods it would refuse, and about existing pods that violate a new standard.
func (g guard) validate(ctx context.Context, req *admission.Request) error {
	if req.Verb == admission.Delete {
		return nil
	}
	switch o := req.Object.(type) {
	case *corev1.Namespace:
		return g.checkNamespace(ctx, req, o)
	case *corev1.Pod:
		if req.Subresource == "status" || g.exempts(ctx, req) {
			return nil
		}
		if old, ok := req.Old.(*corev1.Pod); ok && req.Verb == admission.Update && !Matters(o, old) {
			return nil
		}
		return g.check(ctx, req, &o.ObjectMeta, &o.Spec, true)
	}
	if template := Template(req.Object); template != nil && req.Subresource == "" && !g.exempts(ctx, req) {
		return g.check(ctx, req, &template.ObjectMeta, &template.Spec, false)
	}
	return nil
}

// exempts reports whether the namespace or the user of a request is exempt, and records it.
func (g guard) exempts(ctx context.Context, req *admission.Request) bool {
	user, _ := authn.UserFrom(ctx)
	switch {
	case g.exemptNamespace(req.Namespace):
		exempted(ctx, "namespace")
	case g.exemptUser(user.Name):
		exempted(ctx, "user")
	default:
		return false
	}
	return true
}

// exempted records why a request is exempt.
func exempted(ctx context.Context, reason string) {
	audit.From(ctx).Annotate(api.AuditAnnotationPrefix+api.ExemptionReasonAnnotationKey, reason)
}

// check checks a pod, or the template of one if enforce is false.
func (g guard) check(ctx context.Context, req *admission.Request, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	namespace, err := admission.Get[*corev1.Namespace](ctx, g.objects, "", req.Namespace)
	if err != nil {
		if !enforce {
			return nil // As in Kubernetes, failing to warn refuses nothing.
		}
		return apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", req.Namespace))
	}
	policy, errs := Policy(namespace.Labels, g.defaults)
	record := audit.From(ctx)
	idle := len(errs) == 0 && (policy.FullyPrivileged() || !enforce && policy.Warn.Level == api.LevelPrivileged && policy.Audit.Level == api.LevelPrivileged)
	if !idle && g.exemptRuntimeClass(spec.RuntimeClassName) {
		exempted(ctx, "runtimeClass")
		return nil
	}
	if enforce {
		record.Annotate(api.AuditAnnotationPrefix+api.EnforcedPolicyAnnotationKey, policy.Enforce.String())
	}
	if idle {
		return nil
	}
	if len(errs) > 0 {
		record.Annotate(api.AuditAnnotationPrefix+"error", fmt.Sprintf("Failed to parse policy: %v", errs.ToAggregate()))
	}
	verdict := g.checker.Pod(policy, meta, spec, enforce)
	if verdict.Audit != "" {
		record.Annotate(api.AuditAnnotationPrefix+api.AuditViolationsAnnotationKey, verdict.Audit)
	}
	if verdict.Refusal != nil {
		return admission.Forbidden(req, verdict.Refusal)
	}
	if verdict.Warning != "" {
		admission.Warn(ctx, verdict.Warning)
	}
	return nil
}

// checkNamespace refuses labels that choose no standard, and warns about the pods that don't
// meet a new one.
func (g guard) checkNamespace(ctx context.Context, req *admission.Request, namespace *corev1.Namespace) error {
	if req.Subresource != "" {
		return nil
	}
	policy, errs := Policy(namespace.Labels, g.defaults)
	invalid := apierrors.NewInvalid(req.Kind.GroupKind(), namespace.Name, errs)
	old, ok := req.Old.(*corev1.Namespace)
	if !ok {
		if len(errs) > 0 {
			return invalid
		}
		g.warnExempt(ctx, namespace, policy)
		return nil
	}
	was, oldErrs := Policy(old.Labels, g.defaults)
	if len(errs) > 0 && !reflect.DeepEqual(errs, oldErrs) {
		return invalid
	}
	if !Stricter(policy.Enforce, was.Enforce) {
		return nil
	}
	if g.exemptNamespace(namespace.Name) {
		g.warnExempt(ctx, namespace, policy)
		return nil
	}
	// The cache may lack pods that the client created a moment ago, and a namespace becomes
	// stricter too rarely for the read to cost anything.
	pods, err := admission.LiveList[*corev1.Pod](ctx, g.objects, namespace.Name)
	if err != nil {
		admission.Warn(ctx, "failed to list pods while checking new PodSecurity enforce level")
		return nil
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return g.exemptRuntimeClass(p.Spec.RuntimeClassName) })
	for _, warning := range g.checker.Existing(ctx, namespace.Name, policy.Enforce, pods) {
		admission.Warn(ctx, warning)
	}
	return nil
}
