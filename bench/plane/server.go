package plane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
)

// Server is an apiserver that a benchmark starts and stops.
type Server struct {
	// Started is the duration of the last start.
	Started time.Duration

	binary string
	args   []string
	log    string
	// kubeconfig is the administrator's. writes means that the server writes it when it is ready.
	kubeconfig string
	writes     bool
	etcd       *exec.Cmd  // its storage
	process    *exec.Cmd  // nil while it does not run
	ended      chan error // receives the end of process
}

// Kubernetes returns a kube-apiserver on the plane's etcd, with keys of its own. It has the authority, the
// certificates and the administrator of the plane, whose own apiserver has started before.
func (p *Plane) Kubernetes(ctx context.Context, binary string) (*Server, error) {
	address, err := command.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address %s: %w", address, err)
	}
	in := func(name string) string { return filepath.Join(p.dir, "pki", name) }
	s := &Server{
		binary: binary, log: filepath.Join(p.dir, "kubernetes.log"), kubeconfig: filepath.Join(p.dir, "kubernetes.kubeconfig"), etcd: p.etcd,
		args: []string{
			"--bind-address", host, "--secure-port", port, "--etcd-servers", p.etcdURL, "--etcd-prefix", "/kubernetes",
			"--tls-cert-file", in("apiserver.crt"), "--tls-private-key-file", in("apiserver.key"), "--client-ca-file", in("ca.crt"),
			"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", in("apiserver.crt"),
			"--service-account-signing-key-file", in("apiserver.key"), "--service-cluster-ip-range", "10.96.0.0/12", "--authorization-mode", "Node,RBAC",
		},
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["bench"] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthority: in("ca.crt")}
	config.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificate: in("admin.crt"), ClientKey: in("admin.key")}
	config.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	config.CurrentContext = "bench"
	if err := clientcmd.WriteToFile(*config, s.kubeconfig); err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of the kube-apiserver: %w", err)
	}
	return s, nil
}

// Restart starts the server, after stopping it if it runs, and waits until it is ready.
func (s *Server) Restart(ctx context.Context) (*rest.Config, error) {
	s.Stop()
	if s.writes {
		if err := os.RemoveAll(s.kubeconfig); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the apiserver's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	process := exec.Command(s.binary, s.args...)
	process.Stdout, process.Stderr = log, log
	began := time.Now()
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("starting the apiserver: %w", err)
	}
	s.process, s.ended = process, make(chan error, 1)
	go func() { s.ended <- process.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
		if err == nil && ready(ctx, config) {
			s.Started = time.Since(began)
			return config, nil
		}
		select {
		case <-tick.C:
			continue
		case err := <-s.ended:
			s.ended <- err
		case <-ctx.Done():
		}
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the apiserver does not become ready; its log ends with\n%s", text[max(0, len(text)-2000):])
	}
}

func ready(ctx context.Context, config *rest.Config) bool {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return false
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Processes returns the server and its etcd.
func (s *Server) Processes() []measure.Process {
	return []measure.Process{{Name: "apiserver", PID: s.process.Process.Pid}, {Name: "etcd", PID: s.etcd.Process.Pid}}
}

// Stop stops the server, by force if it does not exit.
func (s *Server) Stop() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGTERM)
	force := time.AfterFunc(endTimeout, func() { _ = s.process.Process.Kill() })
	defer force.Stop()
	if err := <-s.ended; err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.binary, err)
	}
	s.process = nil
}
