package admission

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/garboard/garboard/services/apiserver/internal/admission/podsecurity"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// podSecurity enforces the standard that a namespace chooses for its pods. It warns about workloads
// whose pods it would refuse, and about existing pods that violate a new standard. No user is
// exempt.
func podSecurity(cfg Config, checker *podsecurity.Checker) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		if req.Verb == Delete {
			return nil
		}
		switch o := req.Object.(type) {
		case *corev1.Namespace:
			return checkNamespaceLabels(ctx, cfg, checker, req, o)
		case *corev1.Pod:
			if req.Subresource == "status" {
				return nil
			}
			if old, ok := req.Old.(*corev1.Pod); ok && req.Verb == Update && !podsecurity.Matters(o, old) {
				return nil
			}
			return checkSecurity(ctx, cfg, checker, req, &o.ObjectMeta, &o.Spec, true)
		}
		if template := podsecurity.Template(req.Object); template != nil && req.Subresource == "" {
			return checkSecurity(ctx, cfg, checker, req, &template.ObjectMeta, &template.Spec, false)
		}
		return nil
	}
}

func checkSecurity(ctx context.Context, cfg Config, checker *podsecurity.Checker, req *Request, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	namespace, err := get[*corev1.Namespace](ctx, cfg, "", req.Namespace)
	if err != nil {
		if !enforce {
			return nil // As in Kubernetes, failing to warn refuses nothing.
		}
		return apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", req.Namespace))
	}
	policy, errs := podsecurity.Policy(namespace.Labels)
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
		return forbidden(req, verdict.Refusal)
	}
	if verdict.Warning != "" {
		Warn(ctx, verdict.Warning)
	}
	return nil
}

// checkNamespaceLabels refuses labels that choose no standard, and warns about the pods that don't
// meet a new one.
func checkNamespaceLabels(ctx context.Context, cfg Config, checker *podsecurity.Checker, req *Request, namespace *corev1.Namespace) error {
	if req.Subresource != "" {
		return nil
	}
	policy, errs := podsecurity.Policy(namespace.Labels)
	invalid := apierrors.NewInvalid(req.Kind.GroupKind(), namespace.Name, errs)
	old, ok := req.Old.(*corev1.Namespace)
	if !ok {
		if len(errs) > 0 {
			return invalid
		}
		return nil
	}
	was, oldErrs := podsecurity.Policy(old.Labels)
	if len(errs) > 0 && !reflect.DeepEqual(errs, oldErrs) {
		return invalid
	}
	if !podsecurity.Stricter(policy.Enforce, was.Enforce) {
		return nil
	}
	// The cache may lack pods that the client created a moment ago, and a namespace becomes
	// stricter too rarely for the read to cost anything.
	pods, err := liveList[*corev1.Pod](ctx, cfg, namespace.Name)
	if err != nil {
		Warn(ctx, "failed to list pods while checking new PodSecurity enforce level")
		return nil
	}
	for _, warning := range checker.Existing(ctx, namespace.Name, policy.Enforce, pods) {
		Warn(ctx, warning)
	}
	return nil
}
