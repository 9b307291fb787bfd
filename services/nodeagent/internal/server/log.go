package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// containerLogs serves the log of a container. A log that cannot be read to its end aborts the response,
// so that it does not look complete.
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	asked, err := nodeapi.LogOptions(r.URL.Query())
	if err != nil {
		refuse(w, apierrors.NewBadRequest(fmt.Sprintf("the request for a log is not valid: %v", err)))
		return
	}
	opts, err := options(asked)
	if err != nil {
		refuse(w, err)
		return
	}
	pod := s.pod(r)
	if pod == nil {
		refuse(w, apierrors.NewNotFound(corev1.Resource("pods"), r.PathValue("pod")))
		return
	}
	container, err := s.find(pod, r.PathValue("container"), asked.Previous)
	if err != nil {
		refuse(w, err)
		return
	}
	running := func(context.Context) (bool, error) {
		for _, c := range s.cfg.State(container.PodUID).Containers {
			if c.ID == container.ID {
				return c.State == runtime.Running, nil
			}
		}
		return false, nil
	}
	w.Header().Set("Content-Type", "text/plain")
	out := &flushed{w: w, each: opts.Follow}
	err = containerlog.Read(r.Context(), container.LogPath, opts, running, out)
	switch {
	case err == nil:
	case out.begun:
		s.cfg.Logger.Debug("a log ended early", "path", r.URL.Path, "err", err)
		panic(http.ErrAbortHandler)
	case errors.Is(err, fs.ErrNotExist):
		refuse(w, apierrors.NewBadRequest(fmt.Sprintf("unable to retrieve container logs for %s: the log file is gone", container.ID)))
	default:
		refuse(w, apierrors.NewInternalError(err))
	}
}

// find returns the container whose log is requested: the one before it if previous.
func (s *Server) find(pod *corev1.Pod, name string, previous bool) (*runtime.Container, error) {
	state := s.cfg.State(string(pod.UID))
	container := state.Container(name)
	if previous {
		if container != nil && container.State != runtime.Exited {
			container = state.Before(container)
		} else if container != nil && !s.backingOff(pod, name) {
			container = state.Before(container)
		}
		if container == nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod.Name))
		}
		return container, nil
	}
	if container == nil || container.State == runtime.Created {
		reason, ok := s.cfg.Waiting(string(pod.UID), name)
		if !ok {
			reason = "ContainerCreating"
			if len(pod.Spec.InitContainers) > 0 {
				reason = "PodInitializing"
			}
		}
		if reason == "ErrImagePull" || reason == "ImagePullBackOff" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: trying and failing to pull image", name, pod.Name))
		}
		return nil, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: %s", name, pod.Name, reason))
	}
	return container, nil
}

// backingOff reports whether the container waits to be restarted: then its last instance is the
// previous container, and there is no current one.
func (s *Server) backingOff(pod *corev1.Pod, container string) bool {
	_, waiting := s.cfg.Waiting(string(pod.UID), container)
	return waiting
}

// options returns the part of a log that a request selects.
func options(asked *corev1.PodLogOptions) (containerlog.Options, error) {
	opts := containerlog.Options{
		Follow: asked.Follow && !asked.Previous, Tail: asked.TailLines, Timestamps: asked.Timestamps, LimitBytes: asked.LimitBytes,
	}
	switch {
	case asked.SinceSeconds != nil && asked.SinceTime != nil:
		return opts, apierrors.NewBadRequest("at most one of `sinceTime` or `sinceSeconds` may be specified")
	case asked.SinceSeconds != nil:
		opts.Since = time.Now().Add(-time.Duration(*asked.SinceSeconds) * time.Second)
	case asked.SinceTime != nil:
		opts.Since = asked.SinceTime.Time
	}
	if asked.Stream != nil {
		switch *asked.Stream {
		case corev1.LogStreamAll:
		case corev1.LogStreamStdout:
			opts.Only = containerlog.Stdout
		case corev1.LogStreamStderr:
			opts.Only = containerlog.Stderr
		default:
			return opts, apierrors.NewBadRequest(fmt.Sprintf("the log stream %q is not known", *asked.Stream))
		}
	}
	return opts, nil
}

// flushed writes a log.
type flushed struct {
	w http.ResponseWriter
	// each means that a reader waits for every part.
	each  bool
	begun bool
}

// Write writes a part of the log.
func (f *flushed) Write(p []byte) (int, error) {
	f.begun = true
	n, err := f.w.Write(p)
	if err == nil && f.each {
		err = http.NewResponseController(f.w).Flush()
	}
	return n, err
}
