package job

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

const (
	noIndex       = -1
	indexVariable = "JOB_COMPLETION_INDEX"
	// maxPrefix bounds what a generated name begins with (k8s.io/apiserver, storage/names).
	maxPrefix = 58
)

// index returns a pod's completion index; noIndex if it has none, or one from completions on.
func (p *pass) index(pod *corev1.Pod) int {
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || index < 0 || index >= completions(p.job) {
		return noIndex
	}
	return index
}

// indexesOf returns the indexes of the pods that pass a filter.
func (p *pass) indexesOf(pods []*corev1.Pod, filter func(*corev1.Pod) bool) indexes {
	var found []int
	for _, pod := range pods {
		if index := p.index(pod); index != noIndex && filter(pod) {
			found = append(found, index)
		}
	}
	slices.Sort(found)
	return single(slices.Compact(found))
}

// pending returns up to count indexes that need a pod, the lowest first.
func (p *pass) pending(count int) []int {
	taken := p.succeededIndexes.merge(p.failedIndexes).merge(p.indexesOf(p.active, func(*corev1.Pod) bool { return true }))
	if replacesFailedOnly(p.job) {
		taken = taken.merge(p.indexesOf(p.pods, podstate.Terminating))
	}
	return taken.gaps(count, completions(p.job))
}

// due returns those of the indexes that need not wait after a failure, or else how long the first has to.
func (p *pass) due(pending []int) (due []int, wait time.Duration) {
	if p.job.Spec.BackoffLimitPerIndex == nil {
		return pending, 0
	}
	for _, index := range pending {
		left := time.Duration(0)
		if failed := p.replaced[index]; failed != nil {
			left = backoff(failuresOf(failed)+1, endOf(failed), p.now)
		}
		switch {
		case left == 0:
			due = append(due, index)
		case wait == 0 || left < wait:
			wait = left
		}
	}
	return due, wait
}

// failsIndex reports whether a pod's failure is one too many for its index.
func (p *pass) failsIndex(pod *corev1.Pod) bool {
	if !p.hasFailed(pod) {
		return false
	}
	v := judge(p.job.Spec.PodFailurePolicy, pod)
	return v.action == batchv1.PodFailurePolicyActionFailIndex ||
		v.counts() && number(pod, batchv1.JobIndexFailureCountAnnotation) >= int(*p.job.Spec.BackoffLimitPerIndex)
}

// toReplace returns the last failed pod of each index that needs another.
func (p *pass) toReplace() map[int]*corev1.Pod {
	done := p.succeededIndexes.merge(p.failedIndexes).merge(p.indexesOf(p.active, func(*corev1.Pod) bool { return true }))
	replaced := map[int]*corev1.Pod{}
	for _, pod := range p.valid(nil, p.hasFailed) {
		index := p.index(pod)
		if done.has(index) {
			continue
		}
		last := replaced[index]
		if last == nil || failuresOf(last) <= failuresOf(pod) && !endOf(pod).Before(endOf(last)) {
			replaced[index] = pod
		}
	}
	return replaced
}

// forIndex returns the template of an index, and the beginning of its pod's name.
func (p *pass) forIndex(template *corev1.PodTemplateSpec, index int) (forIndex *corev1.PodTemplateSpec, prefix string) {
	forIndex = template.DeepCopy()
	text := strconv.Itoa(index)
	if forIndex.Annotations == nil {
		forIndex.Annotations = map[string]string{}
	}
	if forIndex.Labels == nil {
		forIndex.Labels = map[string]string{}
	}
	forIndex.Annotations[batchv1.JobCompletionIndexAnnotation] = text
	forIndex.Labels[batchv1.JobCompletionIndexAnnotation] = text
	forIndex.Spec.Hostname = p.job.Name + "-" + text
	if p.job.Spec.BackoffLimitPerIndex != nil {
		counted, ignored := p.inherited(index)
		forIndex.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(counted)
		if ignored > 0 {
			forIndex.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(ignored)
		}
	}
	suffix := "-" + text + "-"
	return forIndex, p.job.Name[:min(len(p.job.Name), maxPrefix-len(suffix))] + suffix
}

// inherited returns the numbers of failures of an index that its next pod takes over.
func (p *pass) inherited(index int) (counted, ignored int) {
	failed := p.replaced[index]
	if failed == nil {
		return 0, 0
	}
	counted = number(failed, batchv1.JobIndexFailureCountAnnotation)
	ignored = number(failed, batchv1.JobIndexIgnoredFailureCountAnnotation)
	if judge(p.job.Spec.PodFailurePolicy, failed).counts() {
		return min(counted+1, math.MaxInt32), ignored
	}
	return counted, min(ignored+1, math.MaxInt32)
}

// failuresOf returns how many pods of its index failed before a pod, counted or ignored.
func failuresOf(pod *corev1.Pod) int {
	return number(pod, batchv1.JobIndexFailureCountAnnotation) + number(pod, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// number reads an annotation; 0 if it is not a number that a Job's controller writes.
func number(pod *corev1.Pod, annotation string) int {
	n, err := strconv.ParseInt(pod.Annotations[annotation], 10, 32)
	if err != nil {
		return 0
	}
	return int(max(n, 0))
}

// addIndexVariables gives every container its pod's index, unless the template sets the variable.
func addIndexVariables(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if slices.ContainsFunc(containers[i].Env, func(v corev1.EnvVar) bool { return v.Name == indexVariable }) {
				continue
			}
			containers[i].Env = append(containers[i].Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation)},
			}})
		}
	}
}
