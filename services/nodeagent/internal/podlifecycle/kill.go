package podlifecycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

// minGrace is the shortest grace period of a container that is stopped: the kubelet's, which avoids
// that processes are killed which would end at once.
const minGrace = 2 * time.Second

// seconds converts a number of seconds from the API, which may be any. It caps the number at 68
// years: more than 292 years would overflow to a negative duration and kill at once.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt32)) * time.Second
}

func graceOf(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds != nil {
		return seconds(*pod.DeletionGracePeriodSeconds)
	}
	return specGrace(pod)
}

// specGrace returns the grace period of a pod that is not being deleted.
func specGrace(pod *corev1.Pod) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		return seconds(*pod.Spec.TerminationGracePeriodSeconds)
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// probeGrace returns the grace period of a container that is killed while its pod lives: that of
// the failed probe, else the pod's.
func (l *Lifecycle) probeGrace(pod *corev1.Pod, c *runtime.Container) time.Duration {
	spec := containerOf(pod, c.Name)
	probe, failed := l.cfg.Prober.Failed(c.ID)
	if spec != nil && failed {
		by := spec.LivenessProbe
		if probe == "startup" {
			by = spec.StartupProbe
		}
		if by != nil && by.TerminationGracePeriodSeconds != nil {
			return seconds(*by.TerminationGracePeriodSeconds)
		}
	}
	return graceOf(pod)
}

// killPod stops every container of the pod, sidecars after the containers that they serve and in reverse
// order, and then its sandboxes.
func (l *Lifecycle) killPod(ctx context.Context, pod *corev1.Pod, state *podstate.Pod, grace time.Duration) error {
	deadline := time.Now().Add(grace)
	var sidecars []*runtime.Container
	var mu sync.Mutex
	var faults []error
	var all, served sync.WaitGroup // served are the containers that sidecars outlive
	for _, c := range state.Running() {
		if spec := containerOf(pod, c.Name); spec != nil && podactions.IsSidecar(spec) {
			sidecars = append(sidecars, c)
			continue
		}
		group := &all
		if slices.ContainsFunc(pod.Spec.Containers, func(spec corev1.Container) bool { return spec.Name == c.Name }) {
			group = &served
		}
		group.Go(func() {
			l.event(pod, c.Name, corev1.EventTypeNormal, "Killing", "Stopping container %s", c.Name)
			if err := l.killContainer(ctx, pod, c, grace); err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, err)
			}
		})
	}
	served.Wait()
	order := func(name string) int {
		return slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
	}
	slices.SortFunc(sidecars, func(a, b *runtime.Container) int { return order(b.Name) - order(a.Name) })
	for _, c := range sidecars {
		l.event(pod, c.Name, corev1.EventTypeNormal, "Killing", "Stopping container %s", c.Name)
		if err := l.killContainer(ctx, pod, c, max(minGrace, time.Until(deadline))); err != nil {
			mu.Lock()
			faults = append(faults, err)
			mu.Unlock()
		}
	}
	all.Wait()
	faults = append(faults, l.removeUnstarted(ctx, state))
	if err := errors.Join(faults...); err != nil {
		return err
	}
	for _, s := range state.Sandboxes {
		if !s.Ready {
			continue
		}
		if err := l.cfg.Runtime.StopSandbox(ctx, s.ID); err != nil {
			l.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedKillPod", "error killing pod: %s", runtime.Describe(err))
			return fmt.Errorf("stopping the pod's sandbox: %w", err)
		}
	}
	return nil
}

// removeUnstarted stops and removes the containers that were created but never started. The runtime
// may be starting one for a caller that is gone: then it refuses the removal, and the next attempt
// finds the container running.
func (l *Lifecycle) removeUnstarted(ctx context.Context, state *podstate.Pod) error {
	var faults []error
	for _, c := range state.Unstarted() {
		err := l.cfg.Runtime.StopContainer(ctx, c.ID, minGrace)
		if err == nil {
			err = l.cfg.Runtime.RemoveContainer(ctx, c.ID)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("removing the unstarted container %s: %w", c.Name, err))
		}
	}
	return errors.Join(faults...)
}

// killContainer runs the preStop hook and stops the container, both within grace.
func (l *Lifecycle) killContainer(ctx context.Context, pod *corev1.Pod, c *runtime.Container, grace time.Duration) error {
	spec := containerOf(pod, c.Name)
	if c.State == runtime.Running && spec != nil && spec.Lifecycle != nil && spec.Lifecycle.PreStop != nil && grace > 0 {
		began := time.Now()
		l.preStop(ctx, pod, spec, c, grace)
		grace -= time.Since(began)
	}
	grace = max(minGrace, grace)
	began := time.Now()
	err := l.cfg.Runtime.StopContainer(ctx, c.ID, grace)
	l.hop(pod, began, "StopContainer "+c.Name)
	if err != nil {
		return fmt.Errorf("stopping container %s: %w", c.Name, err)
	}
	return nil
}

// Terminate stops all containers of the pod.
func (l *Lifecycle) Terminate(ctx context.Context, pod *corev1.Pod, state *podstate.Pod, grace int64, kill *podworkers.Kill) error {
	l.cfg.Prober.Terminating(string(pod.UID))
	l.mu.Lock()
	if kill != nil && kill.Phase != "" {
		l.kills[string(pod.UID)] = kill
	}
	l.mu.Unlock()
	l.report(ctx, pod, state)
	defer l.cfg.Changed()
	if err := l.killPod(ctx, pod, state, seconds(grace)); err != nil {
		return err
	}
	l.cfg.Prober.Remove(string(pod.UID))
	return nil
}

// TerminateOrphan stops all containers of a pod that only the runtime knows.
func (l *Lifecycle) TerminateOrphan(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) error {
	defer l.cfg.Changed()
	for _, c := range state.Running() {
		// The container's own grace period is no longer known.
		if err := l.cfg.Runtime.StopContainer(ctx, c.ID, minGrace); err != nil {
			return fmt.Errorf("stopping container %s of the orphaned pod %s: %w", c.Name, pod.UID, err)
		}
	}
	if err := l.removeUnstarted(ctx, state); err != nil {
		return fmt.Errorf("terminating the orphaned pod %s: %w", pod.UID, err)
	}
	for _, s := range state.Sandboxes {
		if s.Ready {
			if err := l.cfg.Runtime.StopSandbox(ctx, s.ID); err != nil {
				return fmt.Errorf("stopping the sandbox of the orphaned pod %s: %w", pod.UID, err)
			}
		}
	}
	l.cfg.Logger.Info("orphaned pod stopped", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID)
	return nil
}

// Terminated writes the final status of a pod that has stopped, and removes its volumes.
func (l *Lifecycle) Terminated(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) error {
	if !state.Stopped() || len(state.Unstarted()) > 0 {
		// A container of an earlier sync came up after the stop.
		if err := l.killPod(ctx, pod, state, minGrace); err != nil {
			return err
		}
		l.cfg.Changed()
		return errors.New("containers were still running after the pod was stopped")
	}
	_, s := l.generate(ctx, pod, state, true)
	l.mu.Lock()
	kill := l.kills[string(pod.UID)]
	l.mu.Unlock()
	if kill != nil {
		s = l.killed(ctx, pod, state, kill)
	}
	l.cfg.Status.Set(pod, s)
	if err := l.cfg.Volumes.Remove(string(pod.UID)); err != nil {
		return err
	}
	l.cfg.Status.Finish(pod)
	return nil
}

// killed returns the final status of a pod that the node terminated.
func (l *Lifecycle) killed(ctx context.Context, pod *corev1.Pod, state *podstate.Pod, kill *podworkers.Kill) *corev1.PodStatus {
	in, _ := l.generate(ctx, pod, state, true)
	if !status.IsTerminal(in.Old.Phase) {
		in.Old.Phase = kill.Phase
	}
	in.Old.Reason, in.Old.Message = kill.Reason, kill.Message
	s := status.Generate(in)
	for _, condition := range kill.Conditions {
		status.SetCondition(in, s, condition)
	}
	return s
}

// Reject marks a pod that the node does not take as Failed, with reason and message.
func (l *Lifecycle) Reject(pod *corev1.Pod, reason, message string) {
	l.cfg.Events.Event(pod, corev1.EventTypeWarning, reason, "%s", message)
	s := l.cfg.Status.Get(pod)
	s.Phase, s.Reason, s.Message = corev1.PodFailed, reason, "Pod was rejected: "+message
	s.QOSClass = status.QOSClass(pod)
	l.cfg.Status.Set(pod, s)
	l.cfg.Status.Finish(pod)
}
