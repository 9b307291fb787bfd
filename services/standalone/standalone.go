package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/controllers"
	"github.com/garboard/garboard/services/nodeagent"
	"github.com/garboard/garboard/services/scheduler"
)

// tracedHops is how many hops the process remembers: enough for the rollout of some thousand pods.
const tracedHops = 100_000

// identity is the holder of the Leases. Only one process runs on a data folder, so its successor
// may take the Leases over at once, however it ended.
const identity = "garboard"

// kubeconfigName is the name of the administrator's kubeconfig in the data folder.
const kubeconfigName = "admin.kubeconfig"

// Plane is the whole plane in one process.
type Plane struct{ cfg Config }

// New checks the configuration. It starts and writes nothing.
func New(cfg Config) (*Plane, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Plane{cfg: cfg}, nil
}

// Run starts the plane and runs it until ctx ends, or until a part of it fails.
func (p *Plane) Run(ctx context.Context) error {
	began := time.Now()
	data, err := filepath.Abs(p.cfg.DataDir)
	if err != nil {
		return fmt.Errorf("--data-dir %q: %w", p.cfg.DataDir, err)
	}
	p.cfg.DataDir = data
	door, err := p.cfg.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = door.listener.Close() }()
	dir, err := openDataDir(p.cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.close() }()
	runtime, err := p.chooseRuntime(ctx)
	if err != nil {
		return err
	}
	stages, err := p.stages(door, runtime)
	if err != nil {
		return err
	}
	up := lifecycle.Stage{Name: "welcome", Start: func(context.Context) error {
		p.sayUp(door, runtime, time.Since(began))
		return nil
	}}
	return lifecycle.Run(ctx, p.cfg.Logger, append(stages, up)...)
}

// stages returns the services in the order in which they start.
func (p *Plane) stages(door *door, runtime string) ([]lifecycle.Stage, error) {
	cfg := p.cfg
	etcd, err := newEtcd(cfg.DataDir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	certs := filepath.Join(cfg.DataDir, "pki")
	users, err := apiserver.BusAuth(certs)
	if err != nil {
		return nil, fmt.Errorf("creating the keys for the embedded NATS: %w", err)
	}
	server := embedded.Config{
		Port: embedded.NoListener, StoreDir: filepath.Join(cfg.DataDir, "nats"), Auth: users, Logger: cfg.Logger.With("service", "nats"),
	}
	if err := cfg.listenNATS(certs, &server); err != nil {
		return nil, err
	}
	nats, err := embedded.New(server)
	if err != nil {
		return nil, fmt.Errorf("creating the embedded NATS: %w", err)
	}
	s := services{
		cfg: cfg, metrics: metric.OfProcess(cfg.Version), trace: trace.NewRecorder(tracedHops),
		bus: bus.Config{InProcess: nats.InProcess()}, certs: certs, server: "https://" + door.server,
	}
	api, err := s.apiserver(door, etcd.endpoint())
	if err != nil {
		return nil, err
	}
	stages := []lifecycle.Stage{etcd.stage(), {Name: "NATS", Run: nats.Run, Ready: nats.Ready}, api, s.controllers(), s.scheduler()}
	for i := range cfg.Nodes {
		stages = append(stages, s.node(fmt.Sprintf("node-%d", i+1), runtime))
	}
	for i := range stages {
		stages[i] = p.announce(stages[i])
	}
	return append(stages, lifecycle.Stage{Name: "memory", Run: daemon.ReturnMemory}), nil
}

// announce makes a stage report to the user when it is ready.
func (p *Plane) announce(stage lifecycle.Stage) lifecycle.Stage {
	ready := stage.Ready
	stage.Ready = func(ctx context.Context) error {
		began := time.Now()
		if ready != nil {
			if err := ready(ctx); err != nil {
				return err
			}
		}
		fmt.Fprintf(p.cfg.Progress, "  %-12s ready in %v\n", stage.Name, time.Since(began).Round(time.Millisecond))
		return nil
	}
	return stage
}

// services creates the stages that are services, from what they share.
type services struct {
	cfg     Config
	metrics *prometheus.Registry
	trace   *trace.Recorder
	bus     bus.Config
	certs   string
	server  string
}

func (s services) log(service string) *slog.Logger { return s.cfg.Logger.With("service", service) }

// named returns the bus configuration of one service.
func (s services) named(service string) bus.Config {
	config := s.bus
	config.Name, config.Logger = service, s.log(service)
	return config
}

// partLabel is the label that distinguishes the parts' metrics. No metric has a label of that name.
const partLabel = "part"

// registerer separates one part's metrics from others of the same name.
func (s services) registerer(part string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{partLabel: part}, s.metrics)
}

// config returns what a service has in common with the others. The service reaches the apiserver as
// user. It is called when the service starts, because the apiserver creates the credentials when it
// starts itself.
func (s services) config(name, user string, transport client.Transport) (service.Config, error) {
	api, err := apiserver.ServiceConfig(s.certs, s.server, user)
	if err != nil {
		return service.Config{}, fmt.Errorf("finding the credentials of %s: %w", user, err)
	}
	return service.Config{
		API: client.Measured(api, s.registerer(name)), Bus: s.named(name), Transport: transport, Identity: identity, Version: s.cfg.Version,
		Logger: s.log(name), Registerer: s.registerer(name), Trace: s.trace,
	}, nil
}

func (s services) apiserver(door *door, etcd string) (lifecycle.Stage, error) {
	server, err := apiserver.New(apiserver.Config{
		Serving:     apiserver.Serving{Listener: door.listener, AdvertiseAddress: door.published, Hosts: door.hosts(), CertDir: s.certs},
		Etcd:        apiserver.Etcd{Servers: []string{etcd}, CompactionInterval: apiserver.DefaultEtcdCompactionInterval},
		Bus:         apiserver.Bus{NATS: s.named("apiserver")},
		ServiceCIDR: s.cfg.ServiceCIDR, DNSService: s.cfg.DNSService, Admission: s.cfg.Admission, Enablement: s.cfg.Enablement,
		Logger: s.log("apiserver"), Registerer: s.registerer("apiserver"), Gatherer: s.metrics, Trace: s.trace,
		Version: s.cfg.Version, Profiling: true, Flags: s.cfg.Flags,
	})
	if err != nil {
		return lifecycle.Stage{}, err
	}
	return lifecycle.Stage{Name: "apiserver", Run: server.Run, Ready: server.Ready}, nil
}

func (s services) controllers() lifecycle.Stage {
	return late("controllers", func() (service.Runner, error) {
		shared, err := s.config("controllers", "system:kube-controller-manager", s.cfg.Transport)
		if err != nil {
			return nil, err
		}
		cert, key := apiserver.SigningFiles(s.certs)
		cfg := controllers.Config{
			Service: shared, Controllers: s.cfg.Controllers, SigningCertFile: cert, SigningKeyFile: key,
			TokenKeyFile:   apiserver.TokenKeyFile(s.certs),
			LocalPathClass: s.cfg.LocalPathClass, NodeLifecycle: s.cfg.NodeLifecycle,
			Autoscaling: s.cfg.Autoscaling, MetricsServer: s.cfg.MetricsServer,
		}
		cfg.NodeIPAM.Allocate, cfg.NodeIPAM.ClusterCIDRs = len(s.cfg.ClusterCIDRs) > 0, s.cfg.ClusterCIDRs
		return controllers.New(cfg)
	})
}

func (s services) scheduler() lifecycle.Stage {
	return late("scheduler", func() (service.Runner, error) {
		shared, err := s.config("scheduler", "system:kube-scheduler", s.cfg.Transport)
		if err != nil {
			return nil, err
		}
		return scheduler.New(scheduler.Config{Service: shared})
	})
}

func (s services) node(name, runtime string) lifecycle.Stage {
	return late(name, func() (service.Runner, error) {
		shared, err := s.config(name, "system:node:"+name, s.nodeTransport())
		if err != nil {
			return nil, err
		}
		return nodeagent.New(nodeagent.Config{
			NodeName: name, Service: shared, Gatherer: s.metrics,
			DataDir: filepath.Join(s.cfg.DataDir, "nodes", name), LocalVolumesDir: nodeagent.DefaultLocalVolumesDir,
			Runtime:              nodeagent.RuntimeConfig{Endpoint: runtime, Simulated: s.cfg.Simulated},
			AllowedUnsafeSysctls: s.cfg.AllowedUnsafeSysctls, SystemLogHandler: true, Network: s.cfg.Network,
		})
	})
}

// nodeTransport returns what carries the node agents' calls: their own default, unless the user has
// chosen a transport.
func (s services) nodeTransport() client.Transport {
	if s.cfg.Transport == "" {
		return client.TransportAuto
	}
	return s.cfg.Transport
}

// chooseRuntime returns the runtime endpoint of the node agents.
func (p *Plane) chooseRuntime(ctx context.Context) (string, error) {
	if p.cfg.Runtime == Simulated || p.cfg.Nodes == 0 {
		return nodeagent.SimulatedRuntime, nil
	}
	err := nodeagent.ProbeRuntime(ctx, p.cfg.ContainerdEndpoint)
	switch {
	case err == nil && p.cfg.Nodes > 1:
		fmt.Fprintf(p.cfg.Progress, "  containerd answers, but one containerd is one node: the %d nodes are simulated\n", p.cfg.Nodes)
		return nodeagent.SimulatedRuntime, nil
	case err == nil:
		return p.cfg.ContainerdEndpoint, nil
	case p.cfg.Runtime == Containerd:
		return "", fmt.Errorf("containerd does not answer: %w; start it, name its socket with --containerd, or use --runtime simulated", err)
	}
	fmt.Fprintf(p.cfg.Progress, "  no containerd answers on %s: the runtime is simulated, no container is really started\n", p.cfg.ContainerdEndpoint)
	return nodeagent.SimulatedRuntime, nil
}

// sayUp writes the administrator's kubeconfig and tells the user what to type next.
func (p *Plane) sayUp(door *door, runtime string, took time.Duration) {
	server := "https://" + door.server
	path := filepath.Join(p.cfg.DataDir, kubeconfigName)
	if err := p.writeKubeconfig(path, server); err != nil {
		p.cfg.Logger.Error("writing the kubeconfig failed", "err", err)
		return
	}
	kind := "real containers through " + runtime
	if runtime == nodeagent.SimulatedRuntime {
		kind = "the SIMULATED runtime: no container is really started"
	}
	fmt.Fprintf(p.cfg.Progress, `
Garboard is up after %v: %s, %d node(s), %s.
%s
Its data is in %s. Ctrl-C ends it; the next start continues where this one was.

In another terminal:

    export KUBECONFIG=%s
    %s kubectl get nodes -o wide
    %s kubectl create deployment nginx --image=nginx:1.14.2
    %s kubectl get pods -w
    %s trace deployment nginx
`, took.Round(time.Millisecond), server, p.cfg.Nodes, kind, door.says(), p.cfg.DataDir,
		path, p.cfg.Program, p.cfg.Program, p.cfg.Program, p.cfg.Program)
}

func (p *Plane) writeKubeconfig(path, server string) error {
	kubeconfig, err := apiserver.Kubeconfig(filepath.Join(p.cfg.DataDir, "pki"), server)
	if err != nil {
		return err
	}
	return os.WriteFile(path, kubeconfig, 0o600)
}
