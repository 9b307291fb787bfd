package upstream

import (
	"context"
	"crypto/tls"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// user is the controllers' user, on either plane.
const user = "system:kube-controller-manager"

// natsConfig is the configuration of NATS. The apiserver writes the included file.
const natsConfig = `listen: %q
jetstream { store_dir: %q }
no_fast_producer_stall: true
include "pki/nats-auth.conf"
`

// auditPolicy records writes. Leases are renewed all the time.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
`

// plane is our apiserver with its etcd and NATS, and the controllers under test. A driver plays scheduler and node
// agents.
type plane struct {
	name string // of the controllers
	dir  string

	etcd, apiserver, nats, controllers *process

	config    *rest.Config
	client    dynamic.Interface
	mapper    meta.RESTMapper
	resources []schema.GroupVersionResource // namespaced ones that can be listed
	cluster   []schema.GroupVersionResource // the others
	audit     *auditLog
}

// quickSuccession lets a successor of killed controllers work soon, for our controllers; kube-controller-manager
// runs without a Lease then.
var quickSuccession = []string{"--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "500ms"}

// startPlane starts a plane. Its controllers are theirs, else ours. The end of the test stops it. Without
// succession, both elect a leader with Kubernetes' defaults.
func startPlane(t *testing.T, built programs, theirs bool, succession ...string) *plane {
	t.Helper()
	p := &plane{name: ours, dir: t.TempDir()}
	if theirs {
		p.name = kcm
	}
	t.Cleanup(p.stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s ends with\n%s", p.name, tail(p.in("controllers.log")))
		}
	})
	server, etcd, nats := freeAddress(t), freeAddress(t), freeAddress(t)
	p.etcd = p.process("etcd", listens(etcd), filepath.Join(built.folder, "etcd"), "-dir", p.in("data"), "-listen", "http://"+etcd)
	p.apiserver = p.process("apiserver", p.serves(server), filepath.Join(built.folder, "apiserver"), "--listen", server, "--cert-dir", p.in("pki"),
		"--etcd-servers", "http://"+etcd, "--nats-servers", "nats://"+nats, "--write-kubeconfig", p.in("admin.kubeconfig"),
		"--audit-policy-file", p.in("policy.yaml"), "--audit-log-path", p.in("audit.log"), "--audit-log-maxsize", "0")
	p.nats = p.process("nats", listens(nats), filepath.Join(built.folder, "nats-server"), "-c", p.in("nats.conf"))
	p.write(t, "policy.yaml", auditPolicy)
	p.write(t, "nats.conf", fmt.Sprintf(natsConfig, nats, p.in("nats")))
	// NATS needs what the apiserver writes, and the apiserver is ready only with NATS.
	p.begin(t, p.etcd)
	p.apiserver.ready = func(context.Context) error { _, err := os.Stat(p.in("pki/nats-auth.conf")); return err }
	p.begin(t, p.apiserver)
	p.begin(t, p.nats)
	p.apiserver.ready = p.serves(server)
	if err := await(t.Context(), "the apiserver", p.apiserver.ready); err != nil {
		t.Fatalf("%v\n%s", err, tail(p.apiserver.log))
	}
	p.connect(t)
	p.controllers = p.declareControllers(t, built, server, nats, theirs, succession)
	p.begin(t, p.controllers)
	return p
}

func (p *plane) in(name string) string { return filepath.Join(p.dir, name) }

func (p *plane) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(p.in(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) process(name string, ready func(context.Context) error, command ...string) *process {
	return &process{command: command, log: p.in(name + ".log"), ready: ready}
}

func (p *plane) begin(t *testing.T, started *process) {
	t.Helper()
	if err := started.start(t.Context()); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

func (p *plane) stop() {
	for _, running := range []*process{p.controllers, p.apiserver, p.nats, p.etcd} {
		if running != nil {
			running.end(syscall.SIGTERM)
		}
	}
}

// declareControllers returns the controllers under test, with the same settings on both planes.
func (p *plane) declareControllers(t *testing.T, built programs, server, nats string, theirs bool, succession []string) *process {
	t.Helper()
	health := freeAddress(t)
	args := []string{
		"--kubeconfig", p.kubeconfig(t, server), "--allocate-node-cidrs", "--cluster-cidr", "10.64.0.0/10", "--service-cluster-ip-range", "10.96.0.0/12",
		"--cluster-signing-cert-file", p.in("pki/ca.crt"), "--cluster-signing-key-file", p.in("pki/ca.key"),
		"--service-account-private-key-file", p.in("pki/sa.key"),
	}
	if !theirs {
		args = append(append(args, "--nats-servers", "nats://"+nats, "--health-address", health, "--local-path-storage-class="), succession...)
		return p.process("controllers", answers("http://"+health+"/readyz"), append([]string{filepath.Join(built.folder, "controllers")}, args...)...)
	}
	host, port, err := net.SplitHostPort(health)
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--controllers", kubernetesControllers(t), "--root-ca-file", p.in("pki/ca.crt"), fmt.Sprintf("--leader-elect=%t", len(succession) == 0),
		"--bind-address", host, "--secure-port", port, "--cert-dir", p.in("kcm"), "--kube-api-qps", "1000", "--kube-api-burst", "2000")
	return p.process("controllers", answers("https://"+health+"/healthz"), append([]string{built.theirs}, args...)...)
}

// kubernetesControllers returns the list for kube-controller-manager's flag: what does not run here does not run
// there either.
func kubernetesControllers(t *testing.T) string {
	t.Helper()
	list := []string{"*"}
	for name, reason := range listed(t) {
		if reason != "" && !strings.HasPrefix(reason, "within ") {
			list = append(list, "-"+name)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// kubeconfig writes the controllers' kubeconfig and returns its path.
func (p *plane) kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file, err := os.Open(p.in("pki/tokens.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	reader := csv.NewReader(file)
	reader.FieldsPerRecord = -1
	records, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(records, func(record []string) bool { return len(record) > 1 && record[1] == user })
	if at < 0 {
		t.Fatalf("%s has no token", user)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://" + server, CertificateAuthority: p.in("pki/ca.crt")}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: records[at][0]}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := p.in("controllers.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect makes the test's own clients, and finds what can be listed.
func (p *plane) connect(t *testing.T) {
	t.Helper()
	var err error
	if p.config, err = clientcmd.BuildConfigFromFlags("", p.in("admin.kubeconfig")); err != nil {
		t.Fatal(err)
	}
	p.config.QPS, p.config.WarningHandler = -1, rest.NoWarnings{}
	p.client = dynamic.NewForConfigOrDie(p.config)
	groups := discovery.NewDiscoveryClientForConfigOrDie(p.config)
	known, err := restmapper.GetAPIGroupResources(groups)
	if err != nil {
		t.Fatal(err)
	}
	p.mapper = restmapper.NewDiscoveryRESTMapper(known)
	lists, err := groups.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			switch {
			case !slices.Contains(resource.Verbs, "list") || resource.Name == "events" || resource.Name == "leases":
			case resource.Namespaced:
				p.resources = append(p.resources, version.WithResource(resource.Name))
			default:
				p.cluster = append(p.cluster, version.WithResource(resource.Name))
			}
		}
	}
	p.audit = newAuditLog(p.in("audit.log"))
}

// typed returns a client that costs the test little.
func (p *plane) typed() kubernetes.Interface {
	config := rest.CopyConfig(p.config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	return kubernetes.NewForConfigOrDie(config)
}

func (p *plane) serves(server string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if _, err := os.Stat(p.in("admin.kubeconfig")); err != nil {
			return err
		}
		return answers("https://" + server + "/readyz")(ctx)
	}
}

func listens(address string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// answers checks a health endpoint, whose certificate does not matter here.
func answers(url string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}
