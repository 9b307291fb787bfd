package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent/internal/agent"
	"github.com/garboard/garboard/services/nodeagent/internal/join"
	"github.com/garboard/garboard/services/nodeagent/internal/network"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/serving"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
)

// Agent is the agent of one node.
type Agent struct {
	cfg   Config
	shell *service.Shell
	// network connects the network parts, which have an identity of their own.
	network *service.Shell
	joiner  *join.Joiner // nil without Config.Bootstrap

	// The stages of Run set these.
	simulated *simulated.Runtime // nil unless the runtime is simulated
	runtime   *runtime.Client
	inner     *agent.Agent
	parts     *network.Network // nil under the simulated runtime
}

// New checks the configuration and returns an agent. It connects to nothing and touches no disk.
func New(cfg Config) (*Agent, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg}
	if cfg.Bootstrap != "" {
		joining := cfg.joining()
		joining.Renewed = a.renewed
		a.joiner = join.New(joining)
	}
	a.shell = service.New(cfg.Service, service.Role{
		Name: report.NodeAgent, Component: "kubelet", Unready: "the container runtime has not answered yet", Explain: a.because,
	})
	a.network = newNetworkShell(cfg.Service)
	return a, nil
}

// Run runs the agent until ctx ends and returns when everything it started has ended. It leaves
// containers running for the next agent to take over, unless Config.ShutdownGracePeriod is set:
// then it terminates the pods first.
func (a *Agent) Run(ctx context.Context) error {
	return lifecycle.Run(ctx, a.cfg.Service.Logger,
		lifecycle.Stage{Name: "data directory", Start: a.makeDataDir},
		a.simulatedRuntime(),
		a.identity(),
		a.shell.Connections(),
		lifecycle.Stage{Name: "container runtime", Start: a.connectRuntime, End: a.closeRuntime},
		a.shell.Reports(),
		lifecycle.Stage{Name: "assembly", Start: a.assemble},
		a.networkParts(),
		lifecycle.Stage{Name: "pods", Run: func(ctx context.Context) error { return a.inner.Run(ctx) }, End: a.endPods},
	)
}

func (a *Agent) makeDataDir(context.Context) error {
	for _, dir := range []string{a.cfg.DataDir, filepath.Dir(a.cfg.networkToken())} {
		if err := privateDir(dir); err != nil {
			return fmt.Errorf("creating the node agent's data directory: %w", err)
		}
	}
	return nil
}

// simulatedRuntime returns the stage that runs the simulated runtime, if the agent is to use it.
func (a *Agent) simulatedRuntime() lifecycle.Stage {
	if a.cfg.Runtime.Endpoint != SimulatedRuntime {
		return lifecycle.Stage{}
	}
	return lifecycle.Stage{
		Name: "simulated runtime",
		Start: func(context.Context) (err error) {
			a.simulated, err = a.cfg.newSimulated()
			return err
		},
		Run: func(ctx context.Context) error { return a.simulated.Run(ctx) },
	}
}

// connectRuntime connects to the container runtime.
func (a *Agent) connectRuntime(ctx context.Context) (err error) {
	endpoint := a.cfg.Runtime.Endpoint
	if a.simulated != nil {
		endpoint = a.simulated.Endpoint()
	}
	if a.runtime, err = runtime.Connect(ctx, endpoint, a.cfg.Service.Logger); err != nil {
		return err
	}
	a.runtime.Own(a.cfg.NodeName)
	a.runtime.Measure(a.cfg.Service.Registerer)
	return nil
}

func (a *Agent) closeRuntime(context.Context) error {
	if err := a.runtime.Close(); err != nil {
		a.cfg.Service.Logger.Warn("closing the connection to the container runtime failed", "err", err)
	}
	return nil
}

// assemble creates the agent of the node's pods.
func (a *Agent) assemble(ctx context.Context) error {
	version, err := a.runtime.Version(ctx)
	if err != nil {
		return err
	}
	var dial prober.Dial // nil means the network
	if a.simulated != nil {
		dial = a.simulated.Dial
	}
	cfg := a.cfg.Service
	a.inner, err = agent.New(agent.Config{
		NodeName: a.cfg.NodeName, Client: a.shell.Client(), Source: a.shell.Source(),
		Runtime: a.runtime, RuntimeVersion: version, Simulated: a.simulated != nil, Dial: dial,
		Serve: a.serve(a.shell.Conn()), Conditions: a.networkConditions(),
		DataDir: a.cfg.DataDir, LocalVolumesDir: a.cfg.LocalVolumesDir, LogDir: a.cfg.LogDir, Labels: a.cfg.Labels, MaxPods: a.cfg.MaxPods,
		AllowedUnsafeSysctls: a.cfg.AllowedUnsafeSysctls, SystemLogs: a.cfg.SystemLogHandler, SystemLogQuery: a.cfg.SystemLogQuery,
		Port: serving.Config{
			Address: a.cfg.Listen, CertFile: a.cfg.TLSCertFile, KeyFile: a.cfg.TLSPrivateKeyFile, ClientCAFile: a.cfg.ClientCAFile,
		},
		LeaseDuration: time.Duration(a.cfg.NodeLeaseDurationSeconds) * time.Second,
		ShutdownGrace: a.cfg.ShutdownGracePeriod, ShutdownGraceCritical: a.cfg.ShutdownGracePeriodCriticalPods,
		NodeIP: a.cfg.NodeIP, ClusterDNS: a.cfg.nameServers(), ClusterDomain: a.cfg.ClusterDomain,
		Logger: cfg.Logger, Registerer: cfg.Registerer, Gatherer: a.cfg.Gatherer, Trace: cfg.Trace,
	})
	if err == nil {
		err = a.assembleNetwork()
	}
	if err != nil {
		return err
	}
	a.shell.Follow(known{a.inner, a.network})
	return nil
}

// endPods terminates the pods, if they are not to survive the agent.
func (a *Agent) endPods(ctx context.Context) error {
	if a.cfg.ShutdownGracePeriod > 0 {
		a.inner.Shutdown(ctx)
	}
	return nil
}

// drain is how long requests about the node's pods may take when the agent ends. Sessions and followed
// logs would last for hours.
const drain = time.Second

// serve returns a function that serves apiservers' requests to the node over the bus until its context
// ends.
func (a *Agent) serve(conn *bus.Conn) func(context.Context, http.Handler) error {
	return func(ctx context.Context, handler http.Handler) error {
		return serve.New(serve.Config{
			Node: a.cfg.NodeName, Conn: conn, Handler: handler, Drain: drain, Logger: a.cfg.Service.Logger,
			Registerer: a.cfg.Service.Registerer,
		}).Run(ctx)
	}
}

// Ready returns the reason why the agent is not ready to run pods; nil when it is.
func (a *Agent) Ready(ctx context.Context) error {
	if a.joiner != nil {
		if err := a.joiner.Ready(); err != nil {
			return err
		}
	}
	return a.shell.Ready(ctx)
}

// known adapts an Agent to service.Informers: it is ready when the node's pods are known and can
// run.
type known struct {
	*agent.Agent
	network *service.Shell
}

// Watchers implements service.Informers. The network parts' informers count, too.
func (k known) Watchers() []watcher.Status {
	return append(k.Agent.Watchers(), k.network.Watchers()...)
}

// WaitForCacheSync implements service.Informers. It does not wait.
func (k known) WaitForCacheSync(ctx context.Context) error { return k.Ready(ctx) }

// Watchers returns what the agent watches and how far it and its handlers lag; nil before the
// container runtime has answered.
func (a *Agent) Watchers() []watcher.Status { return a.shell.Watchers() }

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
