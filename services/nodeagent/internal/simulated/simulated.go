package simulated

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/simulated/podserver"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated/streams"
)

// The name and the version that the runtime reports.
const (
	runtimeName    = "simulated"
	runtimeVersion = "0.1.0"
)

// maxSocketPath is the maximum length of a unix socket's path that every relevant system supports.
const maxSocketPath = 100

// Config configures a Runtime.
type Config struct {
	// Dir holds the state and, if its name is short enough, the socket; required. The runtime
	// creates it if it is missing. Only one runtime may use it at a time.
	Dir string
	// PodCIDR is the range of pod addresses; required, at least four addresses.
	PodCIDR netip.Prefix
	// StartDelay, RunFor and ExitCode apply to containers whose pod does not set them. Containers
	// run for ever when RunFor is 0.
	StartDelay, RunFor time.Duration
	ExitCode           int32
	// Fail, when set, is called before each call with its CRI name ("RunPodSandbox"). If it returns
	// an error, the call fails with it.
	Fail func(call string) error
	// Logger receives the log; slog's default when nil.
	Logger *slog.Logger
}

// Runtime is a simulated container runtime.
type Runtime struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer

	cfg    Config
	socket string
	wake   chan struct{} // signals that something may be due sooner than clock expects
	// pods answers for the pods while Run runs.
	pods    *podserver.Server
	streams *streams.Server

	mu         sync.Mutex
	store      store
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]*image // by full name
	addresses  addresses
	followers  map[chan *cri.ContainerEventResponse]struct{}
}

// New loads the state that an earlier run left in the directory. Nothing is served before Run.
func New(cfg Config) (*Runtime, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("simulated runtime: the directory %q is not an absolute path", cfg.Dir)
	}
	if !cfg.PodCIDR.IsValid() || cfg.PodCIDR.Addr().BitLen()-cfg.PodCIDR.Bits() < 2 {
		return nil, fmt.Errorf("simulated runtime: %s is not a range of at least four addresses", cfg.PodCIDR)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	r := &Runtime{
		cfg:        cfg,
		wake:       make(chan struct{}, 1),
		streams:    streams.New(),
		store:      store{dir: cfg.Dir},
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		images:     map[string]*image{},
		addresses:  addresses{prefix: cfg.PodCIDR.Masked(), taken: map[netip.Addr]bool{}},
		followers:  map[chan *cri.ContainerEventResponse]struct{}{},
	}
	r.pods = podserver.New(r.about)
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("simulated runtime: %w", err)
	}
	socket, err := socketPath(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("simulated runtime: %w", err)
	}
	r.socket = socket
	return r, nil
}

// Endpoint returns the endpoint that Run serves, for runtime.Connect.
func (r *Runtime) Endpoint() string { return "unix://" + r.socket }

// Run serves until ctx ends.
func (r *Runtime) Run(ctx context.Context) error {
	listener, err := listen(ctx, r.socket)
	if err != nil {
		return fmt.Errorf("simulated runtime: %w", err)
	}
	// Handlers complete, and write their state, even if the caller is gone.
	server := grpc.NewServer(grpc.WaitForHandlers(true),
		grpc.ChainUnaryInterceptor(r.intercept), grpc.ChainStreamInterceptor(r.interceptStream))
	cri.RegisterRuntimeServiceServer(server, r)
	cri.RegisterImageServiceServer(server, r)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("simulated runtime: serving %s: %w", r.socket, err)
		}
		return nil
	})
	group.Go(func() error { return r.pods.Run(ctx) })
	group.Go(func() error {
		if err := r.streams.Run(ctx, &sessions{runtime: r, ctx: ctx}); err != nil {
			return fmt.Errorf("simulated runtime: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		r.clock(ctx)
		// Not gracefully: event streams never end by themselves.
		server.Stop()
		return nil
	})
	return group.Wait()
}

// clock ends containers when they are due.
func (r *Runtime) clock(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.mu.Lock()
		next := r.settle(time.Now())
		r.mu.Unlock()
		timer.Stop()
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-due:
		}
	}
}

// rouse makes clock check again.
func (r *Runtime) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Runtime) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if r.cfg.Fail != nil {
		if err := r.cfg.Fail(filepath.Base(info.FullMethod)); err != nil {
			return nil, err
		}
	}
	return handler(ctx, request)
}

func (r *Runtime) interceptStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if r.cfg.Fail != nil {
		if err := r.cfg.Fail(filepath.Base(info.FullMethod)); err != nil {
			return err
		}
	}
	return handler(server, stream)
}

// socketPath returns a path in dir, or, if that is too long for a socket, in this user's directory
// among the temporary files. The path is the same after a restart.
func socketPath(dir string) (string, error) {
	path := filepath.Join(dir, "cri.sock")
	if len(path) <= maxSocketPath {
		return path, nil
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("garboard-%d", os.Getuid()))
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("creating a directory for the socket: %w", err)
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return "", fmt.Errorf("reading the directory for the socket: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("the directory %s for the socket is not private to this user: remove it", folder)
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(folder, hex.EncodeToString(sum[:8])+".sock"), nil
}

// listen opens the socket and replaces one that a killed process left.
func listen(ctx context.Context, path string) (net.Listener, error) {
	var dialer net.Dialer
	if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("another runtime serves %s", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the socket: %w", err)
	}
	return listener, nil
}
