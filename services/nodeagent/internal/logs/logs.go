// Package logs serves the logs of the node's containers over the bus, for the apiserver's pods/log.
// Package nodeapi defines requests and responses.
package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Config configures a Server.
type Config struct {
	// Pod returns the wanted pod with this name; nil if there is none.
	Pod func(namespace, name string) *corev1.Pod
	// State returns the runtime's state of a pod.
	State func(uid string) *podstate.Pod
	// Waiting returns the reason why a container that never ran waits.
	Waiting func(uid, container string) (reason string, ok bool)
}

// Server serves logs. Any goroutine may use it.
type Server struct{ cfg Config }

// New returns a Server.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Handle serves one request; it writes the header and the log to w.
func (s *Server) Handle(ctx context.Context, request []byte, w io.Writer) error {
	var r nodeapi.LogRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return refuse(w, apierrors.NewBadRequest(fmt.Sprintf("the request for a log is not valid: %v", err)))
	}
	container, err := s.find(&r)
	if err != nil {
		return refuse(w, err)
	}
	opts, err := options(&r)
	if err != nil {
		return refuse(w, err)
	}
	running := func(context.Context) (bool, error) {
		for _, c := range s.cfg.State(container.PodUID).Containers {
			if c.ID == container.ID {
				return c.State == runtime.Running, nil
			}
		}
		return false, nil
	}
	out := &headed{w: w}
	err = containerlog.Read(ctx, container.LogPath, opts, running, out)
	if err != nil && !out.begun {
		if errors.Is(err, fs.ErrNotExist) {
			return refuse(w, apierrors.NewBadRequest(fmt.Sprintf("unable to retrieve container logs for %s: the log file is gone", container.ID)))
		}
		return refuse(w, apierrors.NewInternalError(err))
	}
	if err != nil {
		return err
	}
	return out.begin()
}

// find returns the container whose log is requested.
func (s *Server) find(r *nodeapi.LogRequest) (*runtime.Container, error) {
	pod := s.cfg.Pod(r.Namespace, r.Pod)
	if pod == nil || (r.UID != "" && string(pod.UID) != r.UID) {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), r.Pod)
	}
	state := s.cfg.State(string(pod.UID))
	container := state.Container(r.Container)
	if r.Previous {
		if container != nil && container.State != runtime.Exited {
			container = state.Before(container)
		} else if container != nil && !backingOff(s, pod, r.Container) {
			container = state.Before(container)
		}
		if container == nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("previous terminated container %q in pod %q not found", r.Container, r.Pod))
		}
		return container, nil
	}
	if container == nil || container.State == runtime.Created {
		reason, ok := s.cfg.Waiting(string(pod.UID), r.Container)
		if !ok {
			reason = "ContainerCreating"
			if len(pod.Spec.InitContainers) > 0 {
				reason = "PodInitializing"
			}
		}
		if reason == "ErrImagePull" || reason == "ImagePullBackOff" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: trying and failing to pull image", r.Container, r.Pod))
		}
		return nil, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: %s", r.Container, r.Pod, reason))
	}
	return container, nil
}

// backingOff reports whether the container waits to be restarted: then its last instance is the
// previous container, and there is no current one.
func backingOff(s *Server, pod *corev1.Pod, container string) bool {
	_, waiting := s.cfg.Waiting(string(pod.UID), container)
	return waiting
}

func options(r *nodeapi.LogRequest) (containerlog.Options, error) {
	opts := containerlog.Options{
		Follow: r.Follow && !r.Previous, Tail: r.TailLines, Timestamps: r.Timestamps, LimitBytes: r.LimitBytes,
	}
	switch {
	case r.SinceSeconds != nil && r.SinceTime != nil:
		return opts, apierrors.NewBadRequest("at most one of `sinceTime` or `sinceSeconds` may be specified")
	case r.SinceSeconds != nil:
		opts.Since = time.Now().Add(-time.Duration(*r.SinceSeconds) * time.Second)
	case r.SinceTime != nil:
		opts.Since = r.SinceTime.Time
	}
	if r.Stream != nil {
		switch *r.Stream {
		case corev1.LogStreamAll:
		case corev1.LogStreamStdout:
			opts.Only = containerlog.Stdout
		case corev1.LogStreamStderr:
			opts.Only = containerlog.Stderr
		default:
			return opts, apierrors.NewBadRequest(fmt.Sprintf("the log stream %q is not known", *r.Stream))
		}
	}
	return opts, nil
}

// refuse responds with an error instead of a log.
func refuse(w io.Writer, err error) error {
	var status metav1.Status
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	} else {
		status = apierrors.NewInternalError(err).Status()
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return nodeapi.LogHeader{Status: &status}.Write(w)
}

// headed writes an empty header before the first data.
type headed struct {
	w     io.Writer
	begun bool
}

func (h *headed) begin() error {
	if h.begun {
		return nil
	}
	h.begun = true
	return nodeapi.LogHeader{}.Write(h.w)
}

func (h *headed) Write(p []byte) (int, error) {
	if err := h.begin(); err != nil {
		return 0, err
	}
	return h.w.Write(p)
}
