package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/test/chaos/proxy"
)

// callTimeout bounds a call to an apiserver, which may be stopped.
const callTimeout = 2 * time.Second

// Apiserver is an apiserver process.
type Apiserver struct {
	// Name is the name of the process.
	Name string
	// API is the configuration of its clients; Kubeconfig is the file that contains it.
	API        *rest.Config
	Kubeconfig string
	// Proxies are its connections to the NATS servers.
	Proxies []*proxy.Proxy

	process *Process
}

func (p *Plane) newApiserver(ctx context.Context, number int) (*Apiserver, error) {
	port, err := FreePort(ctx)
	if err != nil {
		return nil, err
	}
	ways, urls, err := p.ways(ctx)
	if err != nil {
		return nil, err
	}
	a := &Apiserver{Name: fmt.Sprintf("apiserver-%d", number), Proxies: ways}
	a.Kubeconfig = filepath.Join(p.cfg.Dir, a.Name+".kubeconfig")
	command := []string{
		p.cfg.Binaries.Apiserver, "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--cert-dir", p.keys(), "--token-auth-file", p.tokenFile(),
		"--etcd-servers", p.Etcd.url, "--nats-servers", strings.Join(urls, ","), "--write-kubeconfig", a.Kubeconfig,
		// No controller creates service accounts here, and the harness compacts etcd.
		"--disable-admission-plugins", "ServiceAccount", "--etcd-compaction-interval", "0",
		"--nats-log-replicas", fmt.Sprint(p.cfg.NATS),
	}
	a.process = NewProcess(a.Name, p.cfg.Dir, append(command, p.cfg.ApiserverFlags...), nil)
	return a, nil
}

// Start starts the apiserver and waits until it is ready.
func (a *Apiserver) Start(ctx context.Context) error {
	if err := os.RemoveAll(a.Kubeconfig); err != nil {
		return fmt.Errorf("starting %s: %w", a.Name, err)
	}
	if err := a.process.Start(); err != nil {
		return err
	}
	return poll(ctx, a.Name, func(ctx context.Context) error {
		if err := a.process.Died(); err != nil {
			return err
		}
		// The apiserver writes it when it is ready.
		config, err := clientcmd.BuildConfigFromFlags("", a.Kubeconfig)
		if err != nil {
			return err
		}
		a.API = config
		_, err = a.get(ctx, "/readyz")
		return err
	})
}

// Kill ends the apiserver abruptly, like a power failure.
func (a *Apiserver) Kill() { a.process.Kill() }

// PID returns the process's ID.
func (a *Apiserver) PID() int { return a.process.PID() }

// Running reports whether the harness started it and has not ended it.
func (a *Apiserver) Running() bool { return a.process.Running() }

// Freeze stops the process without its noticing, until Thaw.
func (a *Apiserver) Freeze() error { return a.process.Signal(syscall.SIGSTOP) }

// Thaw resumes a frozen process.
func (a *Apiserver) Thaw() error { return a.process.Signal(syscall.SIGCONT) }

func (a *Apiserver) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	config := rest.CopyConfig(a.API)
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return client.Get().AbsPath(path).DoRaw(ctx)
}

// leads reports whether the apiserver's metrics say that it publishes.
func (a *Apiserver) leads(ctx context.Context) bool {
	metrics, err := a.get(ctx, "/metrics")
	return err == nil && bytes.Contains(metrics, []byte(`garboard_publisher_leader{election="publisher"} 1`))
}

// Logged waits until the log has every watch message that the apiserver, which must be the
// publisher, has sent.
func (a *Apiserver) Logged(ctx context.Context) error {
	return poll(ctx, "the log to have all messages", func(ctx context.Context) error {
		metrics, err := a.get(ctx, "/metrics")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(metrics)) {
			if strings.HasPrefix(line, "garboard_publisher_unacknowledged_messages{") && !strings.HasSuffix(line, " 0\n") {
				return errors.New(strings.TrimSpace(line))
			}
		}
		return nil
	})
}

// Lead waits until the apiserver's metrics say that it publishes.
func (a *Apiserver) Lead(ctx context.Context) error {
	return poll(ctx, a.Name+" to publish", func(ctx context.Context) error {
		if a.leads(ctx) {
			return nil
		}
		return errors.New("it does not report that it publishes")
	})
}
