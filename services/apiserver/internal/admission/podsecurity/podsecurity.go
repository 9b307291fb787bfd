// Package podsecurity checks pods against the Pod Security Standards that their namespace's labels
// choose, in the words of Kubernetes' PodSecurity plugin. The standards themselves are Kubernetes'
// own library.
package podsecurity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Kubernetes' bounds on the check of existing pods when a namespace changes.
const (
	mostPods = 3000
	longest  = time.Second
)

// Checker knows the standards.
type Checker struct {
	evaluator policy.Evaluator
}

// New returns a checker of all versions of the standards.
func New() (*Checker, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("reading the pod security standards: %w", err)
	}
	return &Checker{evaluator: evaluator}, nil
}

// Policy returns the policy that labels choose, with defaults where they choose nothing. If it
// returns errors, the enforced level is the strictest that the labels could mean.
func Policy(labels map[string]string, defaults api.Policy) (api.Policy, field.ErrorList) {
	return api.PolicyToEvaluate(labels, defaults)
}

// Verdict is the result of checking a pod or a pod template.
type Verdict struct {
	// Refusal says why a pod is not allowed; nil if it is.
	Refusal error
	// Warning is for the user, and Audit for the audit log; empty if there is nothing to say.
	Warning, Audit string
}

// Pod checks a pod, or a pod template. Only pods are refused.
func (c *Checker) Pod(p api.Policy, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) Verdict {
	var v Verdict
	judge := func(violation string, standard api.LevelVersion) string {
		result := policy.AggregateCheckResults(c.evaluator.EvaluatePod(standard, meta, spec))
		if result.Allowed {
			return ""
		}
		return fmt.Sprintf("%s PodSecurity %q: %s", violation, standard.String(), result.ForbiddenDetail())
	}
	v.Audit = judge("would violate", p.Audit)
	if enforce {
		if text := judge("violates", p.Enforce); text != "" {
			v.Refusal = errors.New(text)
			return v // A warning would only repeat the refusal.
		}
	}
	v.Warning = judge("would violate", p.Warn)
	return v
}

// Template returns the pod template of a workload, or nil if obj has none.
func Template(obj runtime.Object) *corev1.PodTemplateSpec {
	switch o := obj.(type) {
	case *corev1.PodTemplate:
		return &o.Template
	case *corev1.ReplicationController:
		return o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// Matters reports whether an update of a pod can change the verdict: only new images and new
// containers can.
func Matters(pod, old *corev1.Pod) bool {
	if len(pod.Spec.Containers) != len(old.Spec.Containers) || len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return true
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Image != old.Spec.Containers[i].Image {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Image != old.Spec.InitContainers[i].Image {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
		return !slices.ContainsFunc(old.Spec.EphemeralContainers, func(o corev1.EphemeralContainer) bool {
			return o.Name == c.Name && o.Image == c.Image
		})
	})
}

// Stricter reports whether pods that were allowed under one standard may be refused under another.
func Stricter(is, was api.LevelVersion) bool {
	if is == was || is.Level == api.LevelPrivileged {
		return false
	}
	return is.Version != was.Version || api.CompareLevels(is.Level, was.Level) > 0
}

// Existing returns warnings about the pods in a namespace that violate the standard it will now
// enforce. It checks only as many pods as time allows, further pods of the same owner last.
func (c *Checker) Existing(ctx context.Context, namespace string, enforce api.LevelVersion, pods []*corev1.Pod) []string {
	until := time.Now().Add(longest)
	if deadline, ok := ctx.Deadline(); ok {
		if half := time.Now().Add(time.Until(deadline) / 2); half.Before(until) {
			until = half
		}
	}
	pods = oneOfEachFirst(pods)
	type violators struct {
		reason, first string
		count         int
	}
	var found []*violators
	byReason := map[string]*violators{}
	checked := 0
	for _, pod := range pods[:min(len(pods), mostPods)] {
		checked++
		result := policy.AggregateCheckResults(c.evaluator.EvaluatePod(enforce, &pod.ObjectMeta, &pod.Spec))
		if !result.Allowed {
			reason := result.ForbiddenReason()
			v := byReason[reason]
			if v == nil {
				v = &violators{reason: reason, first: pod.Name}
				byReason[reason] = v
				found = append(found, v)
			}
			v.first = min(v.first, pod.Name)
			v.count++
		}
		if ctx.Err() != nil || time.Now().After(until) {
			break
		}
	}
	var warnings []string
	if checked < len(pods) {
		warnings = append(warnings, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, len(pods)))
	}
	if len(found) == 0 {
		return warnings
	}
	warnings = append(warnings, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, enforce.String()))
	var each []string
	for _, v := range found {
		switch v.count {
		case 1:
			each = append(each, fmt.Sprintf("%s: %s", v.first, v.reason))
		case 2:
			each = append(each, fmt.Sprintf("%s (and 1 other pod): %s", v.first, v.reason))
		default:
			each = append(each, fmt.Sprintf("%s (and %d other pods): %s", v.first, v.count-1, v.reason))
		}
	}
	slices.Sort(each)
	return append(warnings, each...)
}

// oneOfEachFirst moves the second and further pods of an owner to the end.
func oneOfEachFirst(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	var first, rest []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, pod := range pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner != nil && seen[owner.UID] {
			rest = append(rest, pod)
			continue
		}
		if owner != nil {
			seen[owner.UID] = true
		}
		first = append(first, pod)
	}
	return append(first, rest...)
}
