package pod

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
)

// Pod defines the kind Pod.
func Pod() *kinds.Definition {
	return kinds.Of[*corev1.Pod]{
		Columns:  podColumns(),
		Level:    kinds.Full,
		Default:  podtemplate.DefaultPod,
		Create:   beginPod,
		Validate: podspec.Validate,
		Update: kinds.ChangeOf[*corev1.Pod]{
			Prepare: func(p, old *corev1.Pod) {
				p.Status = *old.Status.DeepCopy()
				keepWhole(p, old)
				if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
					p.Generation = old.Generation + 1
				}
			},
			Validate: validateUpdate,
			Warnings: func(_, _ *corev1.Pod) []string { return nil }, // Programs update pods, users rarely do.
		},
		Subresources: map[string]kinds.ChangeOf[*corev1.Pod]{"status": {
			Prepare:  prepareStatus,
			Validate: validateStatusUpdate,
			Warnings: func(p, _ *corev1.Pod) []string { return addressWarnings(&p.Status) },
		}, "ephemeralcontainers": {Prepare: onlyEphemeral, Validate: podspec.ValidateEphemeralContainers}, "resize": {
			Prepare: onlyResources,
			Validate: func(p, old *corev1.Pod) field.ErrorList {
				return validateResize(p, old, qosClass(old), qosClass(p))
			},
		}},
		Warnings:         podtemplate.PodWarnings,
		CreationWarnings: func(p *corev1.Pod) []string { return podtemplate.PodNameWarnings(p.Name) },
		ReplacedWarnings: appArmorWarnings,
		FieldLabels: []string{
			"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
			"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
		},
		Fields:        podFields,
		Grace:         podGrace,
		ReturnDeleted: true,
	}.Definition()
}

// onlyEphemeral drops everything from a pod update but its ephemeral containers.
func onlyEphemeral(p, old *corev1.Pod) {
	containers := p.Spec.EphemeralContainers
	keepPod(p, old)
	p.Spec.EphemeralContainers = containers
	countSpec(p, old)
}

// onlyResources drops everything from a pod update but resources and resize policies. If the update
// changes which containers there are, it is left for validation to reject.
func onlyResources(p, old *corev1.Pod) {
	if len(p.Spec.Containers) == len(old.Spec.Containers) && len(p.Spec.InitContainers) == len(old.Spec.InitContainers) {
		wanted := p.Spec
		keepPod(p, old)
		p.Spec.Resources = wanted.Resources
		p.Spec.Containers = withResources(p.Spec.Containers, wanted.Containers)
		p.Spec.InitContainers = withResources(p.Spec.InitContainers, wanted.InitContainers)
	}
	keepWhole(p, old)
	wholeResources(p)
	countSpec(p, old)
}

// withResources returns containers with other resources and resize policies; all of the others if their
// names differ.
func withResources(containers, wanted []corev1.Container) []corev1.Container {
	for i := range containers {
		if containers[i].Name != wanted[i].Name {
			return wanted
		}
		containers[i].Resources, containers[i].ResizePolicy = wanted[i].Resources, wanted[i].ResizePolicy
	}
	return containers
}

func keepPod(p, old *corev1.Pod) {
	before := old.DeepCopy()
	kinds.KeepMetadata(p, before)
	p.Spec, p.Status = before.Spec, before.Status
}

func countSpec(p, old *corev1.Pod) {
	if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
		p.Generation = old.Generation + 1
	}
}

func podFields(p *corev1.Pod) fields.Set {
	ip := p.Status.PodIP
	if ip == "" && len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName": p.Spec.NodeName, "spec.restartPolicy": string(p.Spec.RestartPolicy),
		"spec.schedulerName": p.Spec.SchedulerName, "spec.serviceAccountName": p.Spec.ServiceAccountName,
		"spec.hostNetwork": strconv.FormatBool(p.Spec.HostNetwork), "status.phase": string(p.Status.Phase),
		"status.podIP": ip, "status.podIPs": ip, "status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}

// podGrace returns how many seconds a deleted pod may keep running: what the request says, or else
// the pod. It is 0 if none of the pod's containers can be running.
func podGrace(p *corev1.Pod, opts *metav1.DeleteOptions) *int64 {
	var period int64
	switch {
	case opts.GracePeriodSeconds != nil:
		period = *opts.GracePeriodSeconds
	case p.Spec.TerminationGracePeriodSeconds != nil:
		period = *p.Spec.TerminationGracePeriodSeconds
	}
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	return &period
}

// qosClass returns a pod's quality-of-service class, by which a node under pressure chooses what to
// evict. The class is guaranteed if every container has limits for CPU and memory and requests
// exactly them. It is best effort if no container has a request or a limit for either, else
// burstable.
func qosClass(p *corev1.Pod) corev1.PodQOSClass {
	set, guaranteed := false, true
	look := func(r *corev1.ResourceRequirements) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				set = true
			}
			if limit.IsZero() || request.Cmp(limit) != 0 {
				guaranteed = false
			}
		}
	}
	if r := p.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		look(r)
	} else {
		for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range containers {
				look(&containers[i].Resources)
			}
		}
	}
	switch {
	case !set:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// beginPod prepares a new pod: its status says only that it is pending, and why.
func beginPod(p *corev1.Pod) {
	p.Generation = 1
	wholeResources(p)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosClass(p)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now().Rfc3339Copy(), Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
	matchOwnLabels(p)
	appArmorFields(p)
}

// matchOwnLabels adds the values of a pod's own labels to its selectors, for the keys that these
// name.
func matchOwnLabels(p *corev1.Pod) {
	add := func(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		if selector == nil { // It matches nothing.
			return
		}
		for _, key := range keys {
			if value, ok := p.Labels[key]; ok {
				selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
			}
		}
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range preferred {
			add(preferred[i].PodAffinityTerm.LabelSelector, preferred[i].PodAffinityTerm.MatchLabelKeys, metav1.LabelSelectorOpIn)
			add(preferred[i].PodAffinityTerm.LabelSelector, preferred[i].PodAffinityTerm.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
		}
		for i := range required {
			add(required[i].LabelSelector, required[i].MatchLabelKeys, metav1.LabelSelectorOpIn)
			add(required[i].LabelSelector, required[i].MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		add(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

func podCells(pod *corev1.Pod, now time.Time) []any {
	s := summarize(pod)
	restarts := strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", s.restarts, columns.Since(s.lastRestart, now))
	}
	ip := pod.Status.PodIP
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return []any{
		pod.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.reason, restarts, columns.AgeOf(pod, now),
		columns.OrNone(ip), columns.OrNone(pod.Spec.NodeName), columns.OrNone(pod.Status.NominatedNodeName), gates(pod),
	}
}

// gates counts the readiness gates of a pod that have passed.
func gates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return columns.None
	}
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if isTrue(pod, gate.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}

func isTrue(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// summary is the state of a pod's containers in one row.
type summary struct {
	ready, total int
	reason       string
	restarts     int
	lastRestart  time.Time
}

// restarted counts the restarts of a container.
func (s *summary) restarted(status *corev1.ContainerStatus) {
	s.restarts += int(status.RestartCount)
	if last := status.LastTerminationState.Terminated; last != nil && s.lastRestart.Before(last.FinishedAt.Time) {
		s.lastRestart = last.FinishedAt.Time
	}
}

// initContainers evaluates the init containers up to the first that is not done. It returns the
// restarts of those that keep running beside the app containers.
func (s *summary) initContainers(pod *corev1.Pod, sidecars map[string]bool) (lasting summary, initializing bool) {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		s.restarted(status)
		if sidecars[status.Name] {
			lasting.restarted(status)
		}
		terminated, waiting := status.State.Terminated, status.State.Waiting
		switch {
		case terminated != nil && terminated.ExitCode == 0:
			continue
		case sidecars[status.Name] && status.Started != nil && *status.Started:
			if status.Ready {
				s.ready++
			}
			continue
		case terminated != nil:
			s.reason = "Init:" + endedCell(terminated)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.reason = "Init:" + waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return lasting, true
	}
	return lasting, false
}

// containers evaluates the app containers; the first one with a reason determines the pod's.
func (s *summary) containers(pod *corev1.Pod) {
	running := false
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		status := &pod.Status.ContainerStatuses[i]
		s.restarted(status)
		switch {
		case status.State.Waiting != nil && status.State.Waiting.Reason != "":
			s.reason = status.State.Waiting.Reason
		case status.State.Terminated != nil:
			s.reason = endedCell(status.State.Terminated)
		case status.Ready && status.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason == "Completed" && running {
		s.reason = "NotReady"
		if isTrue(pod, corev1.PodReady) {
			s.reason = "Running"
		}
	}
}

// summarize combines the statuses of a pod's containers, by the rules of Kubernetes' printPod.
func summarize(pod *corev1.Pod) summary {
	s := summary{total: len(pod.Spec.Containers), reason: string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		s.reason = pod.Status.Reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.total++
		}
	}
	lasting, initializing := s.initContainers(pod, sidecars)
	if !initializing || isTrue(pod, corev1.PodInitialized) {
		s.restarts, s.lastRestart = lasting.restarts, lasting.lastRestart
		s.containers(pod)
	}
	switch {
	case pod.DeletionTimestamp != nil && pod.Status.Reason == "NodeLost":
		s.reason = "Unknown"
	case pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded:
		s.reason = "Terminating"
	}
	return s
}

// endedCell describes how a container ended.
func endedCell(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
