package podlifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/nodeagent/internal/images"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

// Reasons why a container waits, Kubernetes' own.
const (
	reasonCrashLoop   = "CrashLoopBackOff"
	reasonConfigError = "CreateContainerConfigError"
	reasonCreateError = "CreateContainerError"
	reasonRunError    = "RunContainerError"
	reasonHookError   = "PostStartHookError"
)

// showFailure is how long a failed pull is shown as such before the status shows the back-off.
const showFailure = 3 * time.Second

// waitError is the reason why a container was not started.
type waitError struct {
	status.Reason
	// known reports that the reason says everything, so the sync need not fail.
	known bool
	// after is the time until a retry; 0 for the default.
	after time.Duration
	err   error
}

func (e *waitError) Error() string { return e.Reason.Reason + ": " + e.Message }

func (e *waitError) Unwrap() error { return e.err }

// start is what all container starts of one sync share.
type start struct {
	// wanted is the pod as the API wants it; pod has the resources it was given, and its addresses
	// in its status.
	wanted    *corev1.Pod
	pod       *corev1.Pod
	state     *podstate.Pod
	sandboxID string
	sandbox   runtime.SandboxConfig
	volumes   map[string]string
}

// startContainer starts one container and records the reason if it could not.
func (l *Lifecycle) startContainer(ctx context.Context, s start, c *corev1.Container) error {
	return l.record(s.pod, c, l.tryStart(ctx, s, c))
}

// record records the reason why a container could not be started, if err has one, and returns err
// with the container's name.
func (l *Lifecycle) record(pod *corev1.Pod, c *corev1.Container, err error) error {
	var wait *waitError
	switch {
	case err == nil:
		l.clearReason(pod, c.Name)
	case errors.As(err, &wait):
		l.setReason(pod, c.Name, wait.Reason)
	}
	if err != nil {
		return fmt.Errorf("starting container %s: %w", c.Name, err)
	}
	return nil
}

func (l *Lifecycle) tryStart(ctx context.Context, s start, c *corev1.Container) error {
	pod := s.pod
	last := s.state.Container(c.Name)
	key := backoffKey(pod, c)
	if last != nil && last.State == runtime.Exited {
		if left := l.crashes.Remaining(key, last.FinishedAt); left > 0 {
			l.event(pod, c.Name, corev1.EventTypeWarning, "BackOff",
				"Back-off restarting failed container %s in pod %s", c.Name, formatPod(pod))
			return &waitError{
				Reason: status.Reason{Reason: reasonCrashLoop, Message: fmt.Sprintf(
					"back-off %s restarting failed container=%s pod=%s", l.crashes.Current(key), c.Name, formatPod(pod))},
				known: true, after: left,
			}
		}
	}
	image, err := l.image(ctx, s, c)
	if err != nil {
		return err
	}
	cfg, err := l.containerConfig(ctx, s, c, image)
	if err != nil {
		l.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: %v", err)
		return &waitError{Reason: status.Reason{Reason: reasonConfigError, Message: err.Error()}, after: 5 * time.Second, err: err}
	}
	if last != nil && last.State == runtime.Exited {
		l.crashes.Next(key, last.FinishedAt)
	}
	id, err := l.create(ctx, s, c, cfg)
	if err != nil {
		return err
	}
	l.linkLog(pod, c, id, filepath.Join(s.sandbox.LogDirectory, cfg.LogPath))
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		return l.postStart(ctx, pod, c, id)
	}
	return nil
}

// image ensures that the container's image is on the node.
func (l *Lifecycle) image(ctx context.Context, s start, c *corev1.Container) (string, error) {
	pod := s.pod
	var secrets []*corev1.Secret
	for _, ref := range pod.Spec.ImagePullSecrets {
		secret, err := l.cfg.References.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			if apierrors.IsNotFound(err) || ctx.Err() == nil {
				l.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
					"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", ref.Name)
			}
			continue
		}
		secrets = append(secrets, secret)
	}
	began := time.Now()
	ref, err := l.cfg.Images.Ensure(ctx, images.Request{
		Pod: pod.UID, Image: c.Image, Policy: c.ImagePullPolicy, Sandbox: s.sandbox, Secrets: secrets,
	}, func(eventType, reason, message string) { l.event(pod, c.Name, eventType, reason, "%s", message) })
	l.hop(pod, began, "image "+c.Image)
	if failed, ok := errors.AsType[*images.Error](err); ok {
		l.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: %s", failed.Reason)
		wait := &waitError{
			Reason: status.Reason{Reason: failed.Reason, Message: failed.Message},
			known:  failed.Reason == images.ReasonImagePullBackOff, after: failed.RetryAfter, err: err,
		}
		if !wait.known {
			wait.after = min(wait.after, showFailure)
		}
		return "", wait
	}
	return ref, err
}

// create creates and starts the container.
func (l *Lifecycle) create(ctx context.Context, s start, c *corev1.Container, cfg runtime.ContainerConfig) (string, error) {
	pod := s.pod
	calm, done := unhurried(ctx)
	defer done()
	began := time.Now()
	id, err := l.cfg.Runtime.CreateContainer(calm, s.sandboxID, cfg, s.sandbox)
	l.hop(pod, began, "CreateContainer "+c.Name)
	if err != nil {
		return "", l.failed(ctx, pod, c, reasonCreateError, err)
	}
	if ctx.Err() != nil {
		return "", ctx.Err() // The pod's termination removes the container.
	}
	l.event(pod, c.Name, corev1.EventTypeNormal, "Created", "Container created")
	return id, l.started(ctx, pod, c, id)
}

// started starts a created container.
func (l *Lifecycle) started(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string) error {
	calm, done := unhurried(ctx)
	defer done()
	began := time.Now()
	err := l.cfg.Runtime.StartContainer(calm, id)
	l.hop(pod, began, "StartContainer "+c.Name)
	if err != nil {
		return l.failed(ctx, pod, c, reasonRunError, err)
	}
	l.event(pod, c.Name, corev1.EventTypeNormal, "Started", "Container started")
	return nil
}

func (l *Lifecycle) failed(ctx context.Context, pod *corev1.Pod, c *corev1.Container, reason string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // The pod is being killed; the container has not failed.
	}
	message := runtime.Describe(err)
	l.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: %s", message)
	return &waitError{Reason: status.Reason{Reason: reason, Message: message}, err: err}
}

// attempt returns the restart count of the next container with c's name.
func (l *Lifecycle) attempt(s start, c *corev1.Container) uint32 {
	if last := s.state.Container(c.Name); last != nil {
		if last.State == runtime.Created {
			return last.Attempt // It never ran.
		}
		return last.Attempt + 1
	}
	known := l.cfg.Status.Get(s.pod)
	for _, list := range [][]corev1.ContainerStatus{known.ContainerStatuses, known.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == c.Name && list[i].ContainerID != "" {
				return uint32(list[i].RestartCount) + 1 //nolint:gosec // it was made from a uint32
			}
		}
	}
	return 0
}

// linkLog creates the link by which log collectors find a container's log:
// containers/<pod>_<namespace>_<container>-<id>.log. A failure is only logged: nothing else depends
// on the link.
func (l *Lifecycle) linkLog(pod *corev1.Pod, c *corev1.Container, id, target string) {
	dir := filepath.Join(l.cfg.LogDir, "containers")
	name := pod.Name + "_" + pod.Namespace + "_" + c.Name + "-" + id + ".log"
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.Symlink(target, filepath.Join(dir, name))
	}
	if err != nil {
		l.cfg.Logger.Warn("linking a container's log failed", "namespace", pod.Namespace, "name", pod.Name, "container", c.Name, "err", err)
	}
}
