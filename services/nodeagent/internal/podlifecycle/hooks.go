package podlifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

// maxHookAnswer bounds how many bytes of an HTTP hook's response are read.
const maxHookAnswer = 10 << 10

// postStart runs the hook of a container that has just started. If the hook fails the container is
// killed, and the restart policy decides what follows.
func (l *Lifecycle) postStart(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string) error {
	err := l.hook(ctx, pod, c, id, c.Lifecycle.PostStart)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	l.event(pod, c.Name, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	l.cfg.Logger.Warn("a postStart hook failed", "namespace", pod.Namespace, "name", pod.Name, "container", c.Name, "err", err)
	l.event(pod, c.Name, corev1.EventTypeNormal, "Killing", "FailedPostStartHook")
	kill := runtime.Container{ID: id, Name: c.Name, State: runtime.Running}
	if err := l.killContainer(ctx, pod, &kill, graceOf(pod)); err != nil {
		return fmt.Errorf("after a failed postStart hook: %w", err)
	}
	return &waitError{Reason: status.Reason{Reason: reasonHookError, Message: fmt.Sprintf(
		"PostStartHook of container %q in pod %q failed: %v", c.Name, formatPod(pod), err)}, err: err}
}

// preStop runs the hook of a container that is about to be stopped, for at most grace. Whatever the
// result, the container is stopped.
func (l *Lifecycle) preStop(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, c *runtime.Container, grace time.Duration) {
	limited, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := l.hook(limited, pod, spec, c.ID, spec.Lifecycle.PreStop)
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		l.event(pod, spec.Name, corev1.EventTypeWarning, "UnfinishedPreStopHook", "PreStopHook did not complete in %d seconds", int64(grace.Seconds()))
	default:
		l.event(pod, spec.Name, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		l.cfg.Logger.Warn("a preStop hook failed", "namespace", pod.Namespace, "name", pod.Name, "container", spec.Name, "err", err)
	}
}

func (l *Lifecycle) hook(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string, handler *corev1.LifecycleHandler) error {
	switch {
	case handler.Exec != nil:
		_, _, exit, err := l.cfg.Runtime.ExecSync(ctx, id, handler.Exec.Command, 0)
		if err != nil {
			return err
		}
		if exit != 0 {
			// The command's output may be secret and arbitrarily long.
			return fmt.Errorf("command '%v' exited with %d", handler.Exec.Command, exit)
		}
		return nil
	case handler.HTTPGet != nil:
		return l.httpHook(ctx, pod, c, handler.HTTPGet)
	case handler.Sleep != nil:
		backoff.Sleep(ctx, seconds(handler.Sleep.Seconds))
		return ctx.Err()
	}
	return errors.New("the hook names no action that this node agent knows")
}

func (l *Lifecycle) httpHook(ctx context.Context, pod *corev1.Pod, c *corev1.Container, action *corev1.HTTPGetAction) error {
	request, err := prober.Request(ctx, c, action, pod.Status.PodIP)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-lifecycle/1.37")
	response, err := prober.Client(l.cfg.Dial).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.CopyN(io.Discard, response.Body, maxHookAnswer); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the response: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}
