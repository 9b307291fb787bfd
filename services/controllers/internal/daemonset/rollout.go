package daemonset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// limits returns how many nodes may have a second pod, and how many may have none, in a rollout of a
// DaemonSet for so many nodes.
func limits(ds *appsv1.DaemonSet, desired int) (surge, unavailable int, err error) {
	rolling := ds.Spec.UpdateStrategy.RollingUpdate
	if ds.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || rolling == nil {
		return 0, 0, nil
	}
	if rolling.MaxUnavailable != nil {
		if unavailable, err = intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, desired, true); err != nil {
			return 0, 0, fmt.Errorf("invalid value for MaxUnavailable: %w", err)
		}
	}
	if rolling.MaxSurge != nil {
		if surge, err = intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, desired, true); err != nil {
			return 0, 0, fmt.Errorf("invalid value for MaxSurge: %w", err)
		}
	}
	return surge, unavailable, nil
}

// surges reports whether a node may have a second pod.
func (s *state) surges() bool {
	surge, _, err := limits(s.ds, 1)
	return err == nil && surge > 0
}

// versions returns the new and the old pod of a node; false if there are several of either.
func (s *state) versions(node string) (newest, old *corev1.Pod, ok bool) {
	for _, pod := range living(s.onNode[node]) {
		which := &old
		if s.updated(pod) {
			which = &newest
		}
		if *which != nil {
			return nil, nil, false
		}
		*which = pod
	}
	return newest, old, true
}

// rollOut decides which old pods go now, or which nodes get a new one beside it.
func (s *state) rollOut() (plan, error) {
	run := map[string]bool{}
	for _, node := range s.nodes {
		if is, _ := s.want.decide(node); is {
			run[node.Name] = true
		}
	}
	surge, unavailable, err := limits(s.ds, len(run))
	if err != nil {
		return plan{}, err
	}
	if surge == 0 {
		if len(run) > 0 {
			unavailable = max(unavailable, 1) // With neither, nothing could ever be replaced.
		}
		return s.replace(unavailable), nil
	}
	return s.surge(run, surge), nil
}

// replace deletes old pods as long as no more than so many nodes are without an available pod. Old pods that
// are not available go in any case.
func (s *state) replace(most int) plan {
	var t plan
	var candidates []*corev1.Pod
	unavailable := 0
	for _, node := range s.names() {
		newest, old, ok := s.versions(node)
		switch {
		case !ok, (old == nil) == (newest == nil):
			unavailable++ // A place to clean up, or one whose pod is on its way.
		case newest != nil:
			if !s.available(newest) {
				unavailable++
			}
		case !s.available(old):
			t.remove = append(t.remove, old)
			unavailable++
		default:
			candidates = append(candidates, old)
		}
	}
	t.remove = append(t.remove, candidates[:min(max(most-unavailable, 0), len(candidates))]...)
	return t
}

// surge creates new pods beside old ones, on no more than so many nodes at a time. Old pods go when the new
// one is available. On a node that should have none any more, one goes only when enough others are available.
func (s *state) surge(run map[string]bool, most int) plan {
	var t plan
	var candidates []string
	var leaving []*corev1.Pod
	surging, available := 0, 0
	for _, node := range s.names() {
		newest, old, ok := s.versions(node)
		if !ok {
			surging++
			continue
		}
		serving := old
		if serving == nil {
			serving = newest
		}
		serves := serving != nil && s.available(serving)
		if serves {
			available++
		}
		switch {
		case old == nil:
		case newest != nil && s.available(newest):
			t.remove = append(t.remove, old)
		case newest != nil:
			surging++
		case !run[node] && serves:
			leaving = append(leaving, old)
		case !run[node]:
			t.remove = append(t.remove, old)
		case !serves:
			t.create = append(t.create, node) // It can only get better there.
		default:
			candidates = append(candidates, node)
		}
	}
	t.remove = append(t.remove, leaving[:min(max(available-len(run), 0), len(leaving))]...)
	t.create = append(t.create, candidates[:min(max(most-surging, 0), len(candidates))]...)
	return t
}
