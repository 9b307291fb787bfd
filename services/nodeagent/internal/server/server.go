// Package server serves what apiservers ask a node's agent: logs and commands of its pods, attaching and
// forwarded ports, and what the node uses and is. Package nodeapi defines the paths; answers are those of Kubernetes' kubelet.
package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// MaxSessions is how many sessions a node serves at once: of exec, attach and port-forward, and connections
// to ports of pods. A further one gets the status 429.
const MaxSessions = 256

// Runtime prepares sessions at the container runtime's own server: it is a *runtime.Client.
type Runtime interface {
	Exec(ctx context.Context, id string, command []string, streams runtime.Streams) (*url.URL, error)
	Attach(ctx context.Context, id string, streams runtime.Streams) (*url.URL, error)
	PortForward(ctx context.Context, sandboxID string, ports []int32) (*url.URL, error)
	ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error)
}

// Stats reports what the node and its pods use: it is a *stats.Provider.
type Stats interface {
	Summary(ctx context.Context, onlyCPUAndMemory bool) (*statsapi.Summary, error)
}

// Config configures a Server. All fields are required.
type Config struct {
	Runtime Runtime
	// Pod returns the wanted pod with this name; nil if there is none.
	Pod func(namespace, name string) *corev1.Pod
	// State returns the runtime's state of a pod.
	State func(uid string) *podstate.Pod
	// Pods returns the wanted pods, and States the runtime's state of all pods by UID.
	Pods   func() []*corev1.Pod
	States func() map[string]*podstate.Pod
	// SyncLoop returns an error if the agent's main loop hangs.
	SyncLoop func() error
	// Configuration is what the agent is configured with, by the names of KubeletConfiguration.
	Configuration map[string]any
	// Logs serves /logs/ and what is below it.
	Logs http.Handler
	// Waiting returns the reason why a container that never ran waits.
	Waiting func(uid, container string) (reason string, ok bool)
	// Dial opens a connection to a pod, and NodeIP is the address of pods that use the host's network.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	NodeIP string
	Stats  Stats
	// Metrics serve the paths that are their keys.
	Metrics map[string]http.Handler
	Logger  *slog.Logger
}

// Server is the handler of a node's requests. Any goroutine may use it.
type Server struct {
	cfg      Config
	mux      *http.ServeMux
	sessions chan struct{} // holds one element for each session
	quiet    logr.Logger   // for libraries
}

// New returns a Server.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, mux: http.NewServeMux(), sessions: make(chan struct{}, MaxSessions),
		quiet: logr.FromSlogHandler(quiet{cfg.Logger.Handler()}),
	}
	s.health()
	s.mux.HandleFunc("GET /pods", s.podList)
	s.mux.HandleFunc("GET /runningpods/{$}", s.runningPods)
	s.mux.HandleFunc("GET /runningpods", s.runningPods)
	s.mux.HandleFunc("GET /configz", s.configuration)
	s.mux.HandleFunc("POST /run/{namespace}/{pod}/{container}", s.counted(s.run))
	s.mux.HandleFunc("POST /run/{namespace}/{pod}/{uid}/{container}", s.counted(s.run))
	if cfg.Logs != nil {
		s.mux.Handle("GET /logs/", cfg.Logs)
	}
	s.mux.HandleFunc("GET /stats/summary", s.summary)
	s.mux.HandleFunc("POST /stats/summary", s.summary)
	for path, handler := range cfg.Metrics {
		s.mux.Handle("GET "+path, handler)
	}
	s.mux.HandleFunc("GET "+nodeapi.Pattern(nodeapi.ContainerLogs), s.containerLogs)
	for verb, handler := range map[string]http.HandlerFunc{
		nodeapi.Exec: s.exec, nodeapi.Attach: s.attach, nodeapi.PortForward: s.portForward,
	} {
		// WebSockets begin with GET, SPDY with POST.
		s.mux.HandleFunc("GET "+nodeapi.Pattern(verb), s.bounded(handler))
		s.mux.HandleFunc("POST "+nodeapi.Pattern(verb), s.bounded(handler))
	}
	s.mux.HandleFunc("GET "+nodeapi.Pattern(nodeapi.Dial), s.bounded(s.dial))
	return s
}

// ServeHTTP serves a request. A session lasts until one of its ends closes the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// pod returns the pod that a request names; nil if it is not on this node.
func (s *Server) pod(r *http.Request) *corev1.Pod {
	pod := s.cfg.Pod(r.PathValue("namespace"), r.PathValue("pod"))
	if uid := r.URL.Query().Get(nodeapi.UID); pod == nil || uid != "" && uid != string(pod.UID) {
		return nil
	}
	return pod
}
