package podsecurity

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// Plugin returns the plugin PodSecurity.
func Plugin(objects admission.Objects) (admission.Plugin, error) {
	checker, err := New()
	if err != nil {
		return admission.Plugin{}, err
	}
	return admission.Plugin{Validate: podSecurity(objects, checker)}, nil
}

// podSecurity enforces the standard that a namespace chooses for its pods. It warns about workloads
// whose pods it would refuse, and about existing pods that violate a new standard. No user is
// exempt.
func podSecurity(objects admission.Objects, checker *Checker) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		if req.Verb == admission.Delete {
			return nil
		}
		switch o := req.Object.(type) {
		case *corev1.Namespace:
			return checkNamespaceLabels(ctx, objects, checker, req, o)
		case *corev1.Pod:
			if req.Subresource == "status" {
				return nil
			}
			if old, ok := req.Old.(*corev1.Pod); ok && req.Verb == admission.Update && !Matters(o, old) {
				return nil
			}
			return checkSecurity(ctx, objects, checker, req, &o.ObjectMeta, &o.Spec, true)
		}
		if template := Template(req.Object); template != nil && req.Subresource == "" {
			return checkSecurity(ctx, objects, checker, req, &template.ObjectMeta, &template.Spec, false)
		}
		return nil
	}
}

func checkSecurity(ctx context.Context, objects admission.Objects, checker *Checker, req *admission.Request, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	namespace, err := admission.Get[*corev1.Namespace](ctx, objects, "", req.Namespace)
	if err != nil {
		if !enforce {
			return nil // As in Kubernetes, failing to warn refuses nothing.
		}
		return apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", req.Namespace))
	}
	policy, errs := Policy(namespace.Labels)
	record := audit.From(ctx)
	if enforce {
		record.Annotate(api.AuditAnnotationPrefix+api.EnforcedPolicyAnnotationKey, policy.Enforce.String())
	}
	if len(errs) == 0 && policy.FullyPrivileged() {
		return nil
	}
	if len(errs) > 0 {
		record.Annotate(api.AuditAnnotationPrefix+"error", fmt.Sprintf("Failed to parse policy: %v", errs.ToAggregate()))
	}
	verdict := checker.Pod(policy, meta, spec, enforce)
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

// checkNamespaceLabels refuses labels that choose no standard, and warns about the pods that don't
// meet a new one.
func checkNamespaceLabels(ctx context.Context, objects admission.Objects, checker *Checker, req *admission.Request, namespace *corev1.Namespace) error {
	if req.Subresource != "" {
		return nil
	}
	policy, errs := Policy(namespace.Labels)
	invalid := apierrors.NewInvalid(req.Kind.GroupKind(), namespace.Name, errs)
	old, ok := req.Old.(*corev1.Namespace)
	if !ok {
		if len(errs) > 0 {
			return invalid
		}
		return nil
	}
	was, oldErrs := Policy(old.Labels)
	if len(errs) > 0 && !reflect.DeepEqual(errs, oldErrs) {
		return invalid
	}
	if !Stricter(policy.Enforce, was.Enforce) {
		return nil
	}
	// The cache may lack pods that the client created a moment ago, and a namespace becomes
	// stricter too rarely for the read to cost anything.
	pods, err := admission.LiveList[*corev1.Pod](ctx, objects, namespace.Name)
	if err != nil {
		admission.Warn(ctx, "failed to list pods while checking new PodSecurity enforce level")
		return nil
	}
	for _, warning := range checker.Existing(ctx, namespace.Name, policy.Enforce, pods) {
		admission.Warn(ctx, warning)
	}
	return nil
}
