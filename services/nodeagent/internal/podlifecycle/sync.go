package podlifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/admit"
	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/objectcache"
	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

// conditionSupported is False on a pod whose spec requests what the node agent cannot do.
const conditionSupported corev1.PodConditionType = "garboard.io/SpecSupported"

const reasonUnsupported = "UnsupportedField"

// mountRetry is the delay before another attempt to create the volumes of a pod that waits for them.
const mountRetry = 2 * time.Second

// Sync moves a living pod closer to its wanted state.
func (l *Lifecycle) Sync(ctx context.Context, kind podworkers.Kind, pod *corev1.Pod, state *podstate.Pod) (podworkers.Outcome, error) {
	ctx = objectcache.For(ctx, pod)
	if kind == podworkers.Create {
		l.cfg.References.Forget(pod.Namespace)
	}
	if unsupported := admit.Unsupported(pod); len(unsupported) > 0 {
		if !allocation.Began(state, l.cfg.Status.Get(pod)) {
			l.refuse(ctx, kind, pod, state, unsupported)
			return podworkers.Outcome{}, nil
		}
		// The agent keeps managing a running pod, whatever its spec now requests.
		if kind == podworkers.Create {
			l.cfg.Events.Event(pod, corev1.EventTypeWarning, reasonUnsupported,
				"this node agent does not support: %s; the pod runs without them", strings.Join(unsupported, ", "))
		}
	}
	in, s := l.generate(ctx, pod, state, false)
	l.reportResize(pod, in.Old, s)
	l.cfg.Status.Set(pod, s)
	if status.Finished(in, s) {
		return podworkers.Outcome{Terminal: true}, nil
	}
	left, limited := untilDeadline(pod, s, time.Now())
	if limited && left <= 0 {
		const message = "Pod was active on the node longer than the specified deadline"
		l.cfg.Events.Event(pod, corev1.EventTypeNormal, "DeadlineExceeded", "%s", message)
		return podworkers.Outcome{
			Terminal: true,
			Kill:     &podworkers.Kill{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: message},
		}, nil
	}
	if err := l.cfg.NetworkReady(); err != nil && !pod.Spec.HostNetwork {
		l.cfg.Events.Event(pod, corev1.EventTypeWarning, "NetworkNotReady", "network is not ready: %v", err)
		return podworkers.Outcome{RetryAfter: time.Second}, fmt.Errorf("network is not ready: %w", err)
	}
	l.cfg.Prober.Add(pod)
	outcome, err := l.apply(ctx, pod, state)
	if limited && (outcome.RetryAfter == 0 || left < outcome.RetryAfter) && err == nil {
		outcome.RetryAfter = left
	}
	return outcome, err
}

// refuse reports the fields that prevent the pod's start, in its status and by an Event.
func (l *Lifecycle) refuse(ctx context.Context, kind podworkers.Kind, pod *corev1.Pod, state *podstate.Pod, unsupported []string) {
	message := fmt.Sprintf("this node agent does not support: %s", strings.Join(unsupported, ", "))
	if kind != podworkers.Sync {
		l.cfg.Events.Event(pod, corev1.EventTypeWarning, reasonUnsupported, "%s", message)
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			l.setReason(pod, list[i].Name, status.Reason{Reason: reasonConfigError, Message: message})
		}
	}
	in, s := l.generate(ctx, pod, state, false)
	status.SetCondition(in, s, corev1.PodCondition{
		Type: conditionSupported, Status: corev1.ConditionFalse, Reason: reasonUnsupported, Message: message,
	})
	l.cfg.Status.Set(pod, s)
}

// untilDeadline returns how long the pod may still be active, if that is limited.
func untilDeadline(pod *corev1.Pod, s *corev1.PodStatus, now time.Time) (time.Duration, bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || s.StartTime == nil {
		return 0, false
	}
	deadline := s.StartTime.Add(seconds(*pod.Spec.ActiveDeadlineSeconds))
	return deadline.Sub(now), true
}

// apply creates directories and volumes and performs what podactions.Compute decides.
func (l *Lifecycle) apply(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) (podworkers.Outcome, error) {
	for _, dir := range []string{l.podDir(pod), l.podLogDir(pod)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return podworkers.Outcome{}, fmt.Errorf("creating the directories of the pod: %w", err)
		}
	}
	l.releaseSubPaths(pod, state)
	given := l.allocated(pod, state)
	actions := podactions.Compute(given, l.cfg.Status.Get(pod), state, l.cfg.Prober)
	paths, faults := l.cfg.Volumes.Setup(ctx, l.withAddresses(given, state.IPs()))
	for _, err := range faults {
		l.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedMount", "%v", err)
	}
	waits := len(faults) > 0 && (len(state.Running()) == 0 || actions.Starts())
	if len(faults) > 0 {
		// Containers are still stopped as decided, but none starts without its volumes.
		actions.StartNone()
	}
	if actions.Nothing() {
		if waits {
			return podworkers.Outcome{RetryAfter: mountRetry}, errors.Join(faults...)
		}
		return podworkers.Outcome{}, nil
	}
	defer l.cfg.Changed()
	outcome, err := l.act(ctx, pod, state, actions, paths)
	if waits && err == nil {
		outcome.RetryAfter = mountRetry
	}
	return outcome, errors.Join(append(faults, err)...)
}

// act performs the actions in order.
func (l *Lifecycle) act(ctx context.Context, pod *corev1.Pod, state *podstate.Pod, actions podactions.Actions,
	paths map[string]string) (podworkers.Outcome, error) {
	if actions.KillPod {
		if actions.CreateSandbox && state.Sandbox() != nil {
			l.cfg.Events.Event(pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		if err := l.killPod(ctx, pod, state, graceOf(pod)); err != nil {
			return podworkers.Outcome{}, err
		}
		if !actions.CreateSandbox {
			return podworkers.Outcome{}, nil
		}
	}
	for _, kill := range actions.Kill {
		l.event(pod, kill.Container.Name, corev1.EventTypeNormal, "Killing", "%s", kill.Message)
		if err := l.killContainer(ctx, pod, &kill.Container, l.probeGrace(pod, &kill.Container)); err != nil {
			return podworkers.Outcome{}, err
		}
	}
	for _, c := range actions.Remove {
		if err := l.cfg.Runtime.RemoveContainer(ctx, c.ID); err != nil {
			return podworkers.Outcome{}, fmt.Errorf("removing an unstarted container: %w", err)
		}
	}
	sandbox := l.sandboxConfig(pod, actions.Attempt)
	ips := state.IPs()
	if actions.CreateSandbox {
		id, created, err := l.createSandbox(ctx, pod, sandbox)
		if err != nil {
			return podworkers.Outcome{}, err
		}
		actions.SandboxID, ips = id, created
	}
	s := start{
		wanted: pod, pod: l.withAddresses(l.allocated(pod, state), ips), state: state,
		sandboxID: actions.SandboxID, sandbox: sandbox, volumes: paths,
	}
	return l.startAll(ctx, s, actions)
}

// startAll starts the containers. A container that cannot be started does not keep the others from
// starting, except that init containers wait for each other.
func (l *Lifecycle) startAll(ctx context.Context, s start, actions podactions.Actions) (podworkers.Outcome, error) {
	var outcome podworkers.Outcome
	var faults []error
	note := func(err error) {
		var wait *waitError
		if errors.As(err, &wait) && wait.after > 0 {
			if outcome.RetryAfter == 0 || wait.after < outcome.RetryAfter {
				outcome.RetryAfter = wait.after
			}
		}
		// A container in back-off is not a failure of the sync: its reason says everything.
		if wait == nil || !wait.known {
			faults = append(faults, err)
		}
	}
	for _, c := range actions.StartEphemeral {
		if err := l.startEphemeral(ctx, s, c); err != nil {
			note(err)
		}
	}
	for _, c := range actions.StartInit {
		if err := l.startContainer(ctx, s, c); err != nil {
			note(err)
		}
	}
	for _, c := range actions.Start {
		if err := l.startContainer(ctx, s, c); err != nil {
			note(err)
		}
	}
	// Reasons have changed, though possibly nothing in the runtime.
	l.report(ctx, s.wanted, s.state)
	return outcome, errors.Join(faults...)
}

// createSandbox creates the pod's sandbox and returns its ID and addresses.
func (l *Lifecycle) createSandbox(ctx context.Context, pod *corev1.Pod, cfg runtime.SandboxConfig) (string, []string, error) {
	l.warnOfDNS(pod)
	calm, done := unhurried(ctx)
	defer done()
	began := time.Now()
	id, err := l.cfg.Runtime.RunSandbox(calm, cfg)
	l.hop(pod, began, "RunPodSandbox")
	if err != nil {
		if ctx.Err() == nil {
			l.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %s", runtime.Describe(err))
		}
		return "", nil, fmt.Errorf("creating the pod's sandbox: %w", err)
	}
	sandbox, err := l.cfg.Runtime.Sandbox(ctx, id)
	if err != nil {
		if ctx.Err() == nil {
			l.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedPodSandBoxStatus", "Unable to get pod sandbox status: %s", runtime.Describe(err))
		}
		return "", nil, fmt.Errorf("reading the pod's new sandbox: %w", err)
	}
	return id, sandbox.IPs, nil
}

// withAddresses returns a copy of the pod with the addresses in its status, for the downward API.
func (l *Lifecycle) withAddresses(pod *corev1.Pod, ips []string) *corev1.Pod {
	if pod.Spec.HostNetwork {
		ips = l.cfg.NodeIPs
	}
	withIPs := *pod
	withIPs.Status.HostIPs, withIPs.Status.PodIPs = nil, nil
	for i, ip := range l.cfg.NodeIPs {
		if i == 0 {
			withIPs.Status.HostIP = ip
		}
		withIPs.Status.HostIPs = append(withIPs.Status.HostIPs, corev1.HostIP{IP: ip})
	}
	withIPs.Status.PodIP = ""
	for i, ip := range ips {
		if i == 0 {
			withIPs.Status.PodIP = ip
		}
		withIPs.Status.PodIPs = append(withIPs.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return &withIPs
}
