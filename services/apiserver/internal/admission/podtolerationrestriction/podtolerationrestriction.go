// Package podtolerationrestriction is the plugin PodTolerationRestriction.
package podtolerationrestriction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
	"github.com/garboard/garboard/services/apiserver/internal/admission/tolerations"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
)

// The annotations of namespaces: the tolerations of pods that name none, and those that pods may have.
const (
	defaultsAnnotation = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedAnnotation  = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// document is the configuration, for namespaces without the annotations.
type document struct {
	metav1.TypeMeta `json:",inline"`
	Default         []corev1.Toleration `json:"default,omitempty"`
	Allowed         []corev1.Toleration `json:"whitelist,omitempty"`
}

type plugin struct {
	objects  admission.Objects
	fallback document
}

// Plugin returns the plugin. It adds the default tolerations of its namespace to each new pod, and
// refuses a pod with tolerations that its namespace doesn't allow. A pod that is not best effort
// always tolerates memory pressure. data is a Configuration of
// podtolerationrestriction.admission.k8s.io/v1alpha1, for namespaces without annotations, and may
// be empty.
func Plugin(objects admission.Objects, data []byte) (admission.Plugin, error) {
	p := plugin{objects: objects}
	if len(data) > 0 {
		if err := configuration.DecodeKind(data, &p.fallback, "Configuration", "podtolerationrestriction.admission.k8s.io/v1alpha1"); err != nil {
			return admission.Plugin{}, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	path := field.NewPath("podtolerationrestriction")
	errs := append(scheduling.Tolerations(p.fallback.Default, path.Child("default")), scheduling.Tolerations(p.fallback.Allowed, path.Child("whitelist"))...)
	if len(errs) > 0 {
		return admission.Plugin{}, fmt.Errorf("invalid config: %w", errs.ToAggregate())
	}
	return admission.Plugin{Mutate: p.mutate, Validate: p.validate}, nil
}

// podOf returns the pod that a request writes.
func podOf(req *admission.Request) (*corev1.Pod, bool) {
	pod, ok := req.Object.(*corev1.Pod)
	return pod, ok && req.Verb != admission.Delete && req.Subresource == ""
}

// mutate adds tolerations to a pod, the defaults only to a new one.
func (p plugin) mutate(ctx context.Context, req *admission.Request) error {
	pod, ok := podOf(req)
	if !ok {
		return nil
	}
	var extra []corev1.Toleration
	if req.Verb == admission.Create {
		given, err := p.annotated(ctx, req.Namespace, defaultsAnnotation)
		if err != nil {
			return err
		}
		if extra = given; extra == nil {
			extra = slices.Clone(p.fallback.Default)
		}
	}
	if !bestEffort(pod) {
		extra = append(extra, corev1.Toleration{
			Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	if len(extra) > 0 {
		pod.Spec.Tolerations = tolerations.Merge(pod.Spec.Tolerations, extra)
	}
	return p.validate(ctx, req)
}

// validate refuses a pod with tolerations that are not allowed.
func (p plugin) validate(ctx context.Context, req *admission.Request) error {
	pod, ok := podOf(req)
	if !ok || len(pod.Spec.Tolerations) == 0 {
		return nil
	}
	allowed, err := p.annotated(ctx, req.Namespace, allowedAnnotation)
	if err != nil {
		return err
	}
	scope := "namespace"
	if allowed == nil {
		allowed, scope = p.fallback.Allowed, "cluster"
	}
	if !tolerations.Allowed(pod.Spec.Tolerations, allowed) {
		return admission.Unclassified(fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope))
	}
	return nil
}

// annotated returns the tolerations in an annotation of a namespace: nil without the annotation, and
// none, but not nil, if it is empty.
func (p plugin) annotated(ctx context.Context, name, annotation string) ([]corev1.Toleration, error) {
	namespace, err := admission.Get[*corev1.Namespace](ctx, p.objects, "", name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, err
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	text, ok := namespace.Annotations[annotation]
	if !ok {
		return nil, nil
	}
	found := []corev1.Toleration{}
	if text == "" {
		return found, nil
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, admission.Unclassified(err)
	}
	if found == nil { // The annotation is null.
		found = []corev1.Toleration{}
	}
	return found, nil
}

// bestEffort reports whether a pod has neither requests nor limits for CPU and memory, or says that
// it is best effort.
func bestEffort(pod *corev1.Pod) bool {
	if class := pod.Status.QOSClass; class != "" {
		return class == corev1.PodQOSBestEffort
	}
	idle := func(r *corev1.ResourceRequirements) bool {
		return r.Requests.Cpu().IsZero() && r.Requests.Memory().IsZero() && r.Limits.Cpu().IsZero() && r.Limits.Memory().IsZero()
	}
	if r := pod.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		return idle(r)
	}
	return !slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return !idle(&c.Resources)
	})
}
