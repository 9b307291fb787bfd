package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Timeouts of calls to the runtime (the kubelet's --runtime-request-timeout for calls that change
// something). Stopping a container adds the grace period; only the caller limits pulls.
const (
	readTimeout   = 20 * time.Second
	changeTimeout = 2 * time.Minute
	createTimeout = 4 * time.Minute // sandboxes and containers: network plugins are slow
)

// maxMessage bounds the size of a response in bytes: a list of thousands of containers is several
// megabytes (the kubelet allows 16 MiB too).
const maxMessage = 16 << 20

// retryEvery is the pause between attempts to reach a runtime that does not answer.
const retryEvery = 200 * time.Millisecond

// Client is a connection to one runtime. Any goroutine may call its methods; each sets its own
// timeout in addition to the deadline of ctx. The client reconnects when the runtime restarts;
// calls made meanwhile fail with ErrUnavailable.
type Client struct {
	conn     *grpc.ClientConn
	runtime  cri.RuntimeServiceClient
	images   cri.ImageServiceClient
	logger   *slog.Logger
	endpoint string
	node     string
	measure  *measure

	mu         sync.Mutex
	sandboxes  map[string]sandboxRecord
	containers map[string]containerRecord
}

// Connect connects to the runtime at endpoint, a unix socket
// ("unix:///run/containerd/containerd.sock" or a plain absolute path). It retries until the runtime
// answers or ctx ends, and then returns the error of the last attempt. A socket that does not speak
// CRI v1 fails at once with ErrUnsupported.
func Connect(ctx context.Context, endpoint string, logger *slog.Logger) (*Client, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("connecting to the container runtime: the endpoint %q is not a unix socket (unix:///path/to.sock)", endpoint)
	}
	if logger == nil {
		logger = slog.Default()
	}
	operations := &measure{}
	conn, err := grpc.NewClient("unix://"+path,
		grpc.WithUnaryInterceptor(operations.call),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Without a timeout an idle connection is not dialled anew; a relist every second keeps it
		// busy anyway. A unix socket needs no keepalive probes.
		grpc.WithIdleTimeout(0),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting to the container runtime at %s: %w", endpoint, err)
	}
	c := &Client{
		conn:       conn,
		runtime:    cri.NewRuntimeServiceClient(conn),
		images:     cri.NewImageServiceClient(conn),
		logger:     logger,
		endpoint:   endpoint,
		measure:    operations,
		sandboxes:  map[string]sandboxRecord{},
		containers: map[string]containerRecord{},
	}
	if err := c.answered(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to the container runtime at %s: %w", endpoint, err), conn.Close())
	}
	return c, nil
}

// answered waits until the runtime answers.
func (c *Client) answered(ctx context.Context) error {
	var last error
	for {
		_, err := c.Version(ctx)
		if err == nil || errors.Is(err, ErrUnsupported) {
			return err
		}
		// The attempt that ctx cut off does not show the cause.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(retryEvery):
		}
	}
}

// Own restricts the client to sandboxes and containers of this node's agent: several agents may
// share one runtime. Call it before any other use; without it the client sees everything in the
// runtime.
func (c *Client) Own(node string) { c.node = node }

// Close closes the connection; calls in flight fail.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("closing the connection to the container runtime: %w", err)
	}
	return nil
}

// Endpoint returns the endpoint passed to Connect.
func (c *Client) Endpoint() string { return c.endpoint }

// Version returns the runtime's name and versions.
func (c *Client) Version(ctx context.Context) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	v, err := c.runtime.Version(ctx, &cri.VersionRequest{Version: "v1"})
	if err != nil {
		return Version{}, failed("asking the runtime's version", err)
	}
	return Version{Name: v.GetRuntimeName(), Version: v.GetRuntimeVersion(), API: v.GetRuntimeApiVersion()}, nil
}

// Status returns whether the runtime can run pods.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.runtime.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return Status{}, failed("asking the runtime's status", err)
	}
	return statusOf(answer.GetStatus().GetConditions()), nil
}

func statusOf(conditions []*cri.RuntimeCondition) Status {
	var s Status
	found := map[string]*cri.RuntimeCondition{}
	for _, condition := range conditions {
		found[condition.GetType()] = condition
	}
	var faults []string
	for _, check := range []struct {
		condition, words string
		ready            *bool
	}{
		{cri.RuntimeReady, "container runtime not ready", &s.RuntimeReady},
		{cri.NetworkReady, "container runtime network not ready", &s.NetworkReady},
	} {
		condition := found[check.condition]
		*check.ready = condition.GetStatus()
		if condition == nil {
			faults = append(faults, fmt.Sprintf("%s: condition %s is not set", check.words, check.condition))
		} else if !condition.GetStatus() {
			faults = append(faults, fmt.Sprintf("%s: %s=false reason:%s message:%s",
				check.words, check.condition, condition.GetReason(), condition.GetMessage()))
		}
	}
	s.Message = strings.Join(faults, "; ")
	return s
}
