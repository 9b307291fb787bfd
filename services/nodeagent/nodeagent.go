package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/readiness"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace/propagate"
	"github.com/garboard/garboard/services/nodeagent/internal/agent"
	"github.com/garboard/garboard/services/nodeagent/internal/join"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Agent is the agent of one node.
type Agent struct {
	cfg Config

	mu     sync.Mutex
	inner  *agent.Agent
	causes readiness.Causes // reasons for which inner may not know its pods
	joiner *join.Joiner     // nil without Config.Bootstrap
}

// New checks the configuration and returns an agent. It connects to nothing and touches no disk.
func New(cfg Config) (*Agent, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg}
	if cfg.Bootstrap != "" {
		a.joiner = join.New(cfg.joining())
	}
	return a, nil
}

// Run runs the agent until ctx ends and returns when everything it started has ended. It leaves
// containers running for the next agent to take over, unless Config.ShutdownGracePeriod is set:
// then it terminates the pods first.
func (a *Agent) Run(ctx context.Context) error {
	if err := privateDir(a.cfg.DataDir); err != nil {
		return fmt.Errorf("creating the node agent's data directory: %w", err)
	}
	ctx, end := a.outlive(ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	endpoint := a.cfg.Runtime.Endpoint
	var dial prober.Dial
	if endpoint == SimulatedRuntime {
		simulated, err := a.cfg.newSimulated()
		if err != nil {
			return err
		}
		endpoint, dial = simulated.Endpoint(), simulated.Dial
		group.Go(func() error { return simulated.Run(ctx) })
	}
	group.Go(func() error {
		return a.identified(ctx, func(ctx context.Context) error { return a.run(ctx, endpoint, dial) })
	})
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// outlive returns a context that ends once the pods are terminated after ctx ends. The caller must
// call end.
func (a *Agent) outlive(ctx context.Context) (life context.Context, end func()) {
	if a.cfg.ShutdownGracePeriod == 0 {
		return ctx, func() {}
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		defer cancel()
		a.mu.Lock()
		inner := a.inner
		a.mu.Unlock()
		if inner != nil {
			inner.Shutdown(life)
		}
	})
	return life, func() {
		cancel()
		if !stop() {
			<-ended
		}
	}
}

// run runs the agent on the runtime at endpoint. Probes reach the pods by dial; nil means the
// network.
func (a *Agent) run(ctx context.Context, endpoint string, dial prober.Dial) error {
	// Without NATS the agent watches pods over HTTP, and serves logs once NATS is up.
	conn, err := bus.Dial(client.BusConfig(a.cfg.API, a.cfg.Bus))
	if err != nil {
		return fmt.Errorf("running the node agent: %w", err)
	}
	defer conn.Close()
	api, end, err := client.Connect(ctx, client.As(a.cfg.API, "kubelet"), scheme.New(), a.cfg.Transport, conn, a.cfg.Logger)
	if err != nil {
		return fmt.Errorf("running the node agent: %w", err)
	}
	defer end()
	cri, err := runtime.Connect(ctx, endpoint, a.cfg.Logger)
	if err != nil {
		return fmt.Errorf("running the node agent: %w", err)
	}
	defer func() {
		if err := cri.Close(); err != nil {
			a.cfg.Logger.Warn("closing the connection to the container runtime failed", "err", err)
		}
	}()
	cri.Own(a.cfg.NodeName)
	cri.Measure(a.cfg.Registerer)
	version, err := cri.Version(ctx)
	if err != nil {
		return fmt.Errorf("running the node agent: %w", err)
	}
	inner, err := agent.New(agent.Config{
		NodeName: a.cfg.NodeName, Client: api,
		Source: fabricsource.New(fabricsource.Config{
			Conn: conn, Table: api.Table(), Client: api, Logger: a.cfg.Logger, Registerer: a.cfg.Registerer,
		}),
		Runtime: cri, RuntimeVersion: version, Simulated: a.cfg.Runtime.Endpoint == SimulatedRuntime, Dial: dial,
		ServeLogs: a.serveLogs(conn),
		DataDir:   a.cfg.DataDir, LogDir: a.cfg.LogDir, Labels: a.cfg.Labels, MaxPods: a.cfg.MaxPods,
		AllowedUnsafeSysctls: a.cfg.AllowedUnsafeSysctls,
		ShutdownGrace:        a.cfg.ShutdownGracePeriod, ShutdownGraceCritical: a.cfg.ShutdownGracePeriodCriticalPods,
		NodeIP: a.cfg.NodeIP, ClusterDNS: a.cfg.ClusterDNS, ClusterDomain: a.cfg.ClusterDomain,
		Logger: a.cfg.Logger, Registerer: a.cfg.Registerer, Trace: a.cfg.Trace,
	})
	if err != nil {
		return err
	}
	causes := readiness.Causes{NATS: conn.Lost}
	if config := a.cfg.API; a.cfg.Transport != client.TransportNATS {
		causes.API = func(ctx context.Context) error { return a.because(ctx, client.Answers(ctx, config)) }
	}
	a.mu.Lock()
	a.inner, a.causes = inner, causes
	a.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return inner.Run(ctx) })
	group.Go(func() error { return report.Serve(ctx, conn, a.self()) })
	group.Go(func() error { return propagate.Listen(ctx, conn, a.cfg.Trace) })
	return group.Wait()
}

// self returns what the agent reports about itself.
func (a *Agent) self() report.Self {
	return report.Self{
		Service: report.NodeAgent, Replica: a.cfg.NodeName, Version: a.cfg.Version, Ready: a.Ready, Watchers: a.Watchers, Logger: a.cfg.Logger,
		Certificates: func() []report.Certificate {
			return report.CertificatesIn(report.APIClient, a.cfg.API.CertData, a.certificateFile())
		},
	}
}

// serveLogs returns a function that serves logs on the node's bus subject until its context ends.
func (a *Agent) serveLogs(conn *bus.Conn) func(context.Context, func(context.Context, []byte, io.Writer) error) error {
	return func(ctx context.Context, handle func(context.Context, []byte, io.Writer) error) error {
		subject := bus.NodeSubject(a.cfg.NodeName, nodeapi.Logs)
		subscription, err := conn.ServeStream(ctx, subject, a.cfg.NodeName, handle)
		if err != nil {
			return fmt.Errorf("serving logs on the bus: %w", err)
		}
		<-ctx.Done()
		subscription.Unsubscribe()
		<-subscription.Done()
		return nil
	}
}

// Ready returns the reason why the agent is not ready to run pods; nil when it is.
func (a *Agent) Ready(ctx context.Context) error {
	a.mu.Lock()
	inner, causes := a.inner, a.causes
	a.mu.Unlock()
	if a.joiner != nil {
		if err := a.joiner.Ready(); err != nil {
			return err
		}
	}
	if inner == nil {
		return errors.New("the container runtime has not answered yet")
	}
	return readiness.Check(ctx, known{inner}, causes)
}

// known adapts an Agent to readiness.Check: it is ready when the node's pods are known and can run.
type known struct{ *agent.Agent }

// WaitForCacheSync implements readiness.Informers. It does not wait.
func (k known) WaitForCacheSync(ctx context.Context) error { return k.Ready(ctx) }

// Watchers returns what the agent watches and how far it and its handlers lag; nil before the
// container runtime has answered.
func (a *Agent) Watchers() []watcher.Status {
	a.mu.Lock()
	inner := a.inner
	a.mu.Unlock()
	if inner == nil {
		return nil
	}
	return inner.Watchers()
}

// probeTime bounds how long ProbeRuntime waits for an answer.
const probeTime = 3 * time.Second

// ProbeRuntime checks that a CRI runtime answers at endpoint; the error says why it does not.
func ProbeRuntime(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cri, err := runtime.Connect(ctx, endpoint, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	_, err = cri.Version(ctx)
	return errors.Join(err, cri.Close())
}

// privateDir creates path as a directory that other users cannot read, or restricts the mode of an
// existing one.
func privateDir(path string) error {
	const private = 0o750
	if err := os.MkdirAll(path, private); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&^private == 0 {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()&private)
}
