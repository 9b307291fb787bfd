package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	proxyutil "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// retrySeconds is how long a client should wait when there are too many sessions.
const retrySeconds = 1

// bounded refuses sessions beyond MaxSessions, and requests that are not for one.
func (s *Server) bounded(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !httpstream.IsUpgradeRequest(r) {
			// The runtime must not prepare a session that nobody will use.
			refuse(w, apierrors.NewBadRequest("Upgrade request required"))
			return
		}
		s.counted(handler)(w, r)
	}
}

// counted refuses sessions beyond MaxSessions.
func (s *Server) counted(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.sessions <- struct{}{}:
			defer func() { <-s.sessions }()
		default:
			w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
			refuse(w, apierrors.NewTooManyRequests(fmt.Sprintf("the node serves %d sessions already, the most it may", MaxSessions), retrySeconds))
			return
		}
		handler(w, r.WithContext(logr.NewContext(r.Context(), s.quiet)))
	}
}

// exec runs a command in a container.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	s.command(w, r, func(pod *corev1.Pod, opts *remotecommand.Options) (*url.URL, error) {
		name := r.PathValue("container")
		container := s.running(pod, name)
		if container == nil {
			return nil, fmt.Errorf("container not found (%q)", name)
		}
		streams := runtime.Streams{Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr, TTY: opts.TTY}
		return s.cfg.Runtime.Exec(r.Context(), container.ID, r.URL.Query()["command"], streams)
	})
}

// attach connects to the main process of a container.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	s.command(w, r, func(pod *corev1.Pod, opts *remotecommand.Options) (*url.URL, error) {
		name := r.PathValue("container")
		container, tty := s.running(pod, name), hasTTY(&pod.Spec, name)
		if container == nil || tty == nil {
			return nil, fmt.Errorf("container %s not found in pod %s", name, fullName(pod))
		}
		// A process has its terminal, or none, from its start on.
		streams := runtime.Streams{Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr, TTY: *tty}
		return s.cfg.Runtime.Attach(r.Context(), container.ID, streams)
	})
}

// command serves a session with a process of a pod. prepare returns where the runtime serves it.
func (s *Server) command(w http.ResponseWriter, r *http.Request, prepare func(*corev1.Pod, *remotecommand.Options) (*url.URL, error)) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		refuseText(w, http.StatusBadRequest, err.Error())
		return
	}
	pod := s.pod(r)
	if pod == nil {
		refuseText(w, http.StatusNotFound, "pod does not exist")
		return
	}
	location, err := prepare(pod, opts)
	if err == nil {
		location, err = local(location)
	}
	if err != nil {
		_ = streaming.WriteError(err, w) // The caller is gone if this fails.
		return
	}
	handler := upgrading(location)
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		// Runtimes know the older protocols, which cannot close one direction of a stream.
		handler = proxy.NewStreamTranslatorHandler(location, nil, 0, proxy.Options{
			Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr, Tty: opts.TTY,
		})
	}
	s.serve(handler, w, r)
}

// portForward connects to ports of a pod.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	tunnel := wsstream.IsWebSocketRequestWithTunnelingProtocol(r)
	opts := &portforward.V4Options{}
	if !tunnel {
		var err error
		if opts, err = portforward.NewV4Options(withPorts(r)); err != nil {
			refuseText(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	pod := s.pod(r)
	if pod == nil {
		refuseText(w, http.StatusNotFound, "pod does not exist")
		return
	}
	location, err := s.prepareForward(r, pod, opts.Ports)
	if err != nil {
		_ = streaming.WriteError(err, w) // The caller is gone if this fails.
		return
	}
	handler := upgrading(location)
	if tunnel {
		handler = proxy.NewTunnelingHandler(handler)
	}
	s.serve(handler, w, r)
}

func (s *Server) prepareForward(r *http.Request, pod *corev1.Pod, ports []int32) (*url.URL, error) {
	sandbox := s.cfg.State(string(pod.UID)).ReadySandbox()
	if sandbox == nil {
		return nil, fmt.Errorf("pod not found (%q)", fullName(pod))
	}
	location, err := s.cfg.Runtime.PortForward(r.Context(), sandbox.ID, ports)
	if err != nil {
		return nil, err
	}
	return local(location)
}

// serve passes a session on to the runtime.
func (s *Server) serve(handler http.Handler, w http.ResponseWriter, r *http.Request) {
	log := s.cfg.Logger.With("path", r.URL.Path) // The query has the command, which may have secrets.
	log.Debug("serving a session")
	handler.ServeHTTP(w, r)
	log.Debug("the session has ended")
}

// upgrading returns a handler that connects the client with the runtime.
func upgrading(location *url.URL) http.Handler {
	return proxyutil.NewUpgradeAwareHandler(location, nil, false, true, responder{})
}

// running returns the container of a pod with this name, if it runs; else nil.
func (s *Server) running(pod *corev1.Pod, name string) *runtime.Container {
	container := s.cfg.State(string(pod.UID)).Container(name)
	if container == nil || container.State != runtime.Running {
		return nil
	}
	return container
}

// hasTTY reports whether a container of the pod has a terminal; nil if there is no such container.
func hasTTY(spec *corev1.PodSpec, name string) *bool {
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i].TTY
			}
		}
	}
	for i := range spec.EphemeralContainers {
		if spec.EphemeralContainers[i].Name == name {
			return &spec.EphemeralContainers[i].TTY
		}
	}
	return nil
}

// withPorts returns a request whose query names ports as the kubelet's does, not only as the API's.
func withPorts(r *http.Request) *http.Request {
	query := r.URL.Query()
	if query.Has(portforward.PortHeader) || !query.Has("ports") {
		return r
	}
	query[portforward.PortHeader] = query["ports"]
	location := *r.URL
	location.RawQuery = query.Encode()
	changed := *r
	changed.URL = &location
	return &changed
}

// local returns the URL of a runtime's server, unless it is not on this machine: an agent connects
// clients with nothing else. Like the kubelet, it takes a URL without a host to be of this machine.
func local(location *url.URL) (*url.URL, error) {
	host := location.Hostname()
	if location.Scheme != "http" && location.Scheme != "https" {
		return nil, fmt.Errorf("the container runtime serves sessions over %q, not over HTTP", location.Scheme)
	}
	if host == "" && location.Port() != "" {
		here := *location
		here.Host = net.JoinHostPort("127.0.0.1", location.Port())
		return &here, nil
	}
	if address, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !address.Unmap().IsLoopback()) {
		return nil, fmt.Errorf("the container runtime serves sessions at %q, which is not a loopback address", location.Host)
	}
	return location, nil
}

// fullName returns the name of a pod in the kubelet's form.
func fullName(pod *corev1.Pod) string { return pod.Name + "_" + pod.Namespace }
