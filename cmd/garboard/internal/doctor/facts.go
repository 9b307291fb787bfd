package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/cmd/garboard/internal/plane"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
)

// maxReady bounds how many bytes of /readyz are read.
const maxReady = 64 << 10

// Facts are the results of Gather; an error field says why something is not known.
type Facts struct {
	// Now is the time of the check, Version that of this program.
	Now     time.Time
	Version string
	// Server is the URL of the API in the kubeconfig.
	Server string
	// Dial is why no TLS connection to the server could be made. Chain are the certificates that it
	// presents, and Trust is why the kubeconfig's CA does not vouch for them.
	Dial  error
	Chain []*x509.Certificate
	Trust error
	// Client are the certificates in the kubeconfig; Token reports whether it has a bearer token.
	Client []report.Certificate
	Token  bool
	// Ready is the body of /readyz?verbose, ReadyErr the error of the request, ServerTime the Date
	// of the response, and Took the duration of the request.
	Ready      string
	ReadyCode  int
	ReadyErr   error
	ServerTime time.Time
	Took       time.Duration
	// Status is the status that the apiserver has gathered.
	Status    *report.Status
	StatusErr error
	// Leases are the leases of the services, by name.
	Leases    map[string]*coordinationv1.Lease
	LeasesErr error
	// Nodes are all nodes; Heartbeats are their leases by name.
	Nodes      []*corev1.Node
	Heartbeats map[string]*coordinationv1.Lease
	NodesErr   error
	// Apiservers are the endpoints of the Service kubernetes.
	Apiservers    []string
	ApiserversErr error
	// Network are the facts about the network of pods.
	Network Network
	// Storage are the facts about claims and volumes.
	Storage Storage
	// Autoscalers are all autoscalers.
	Autoscalers    []*autoscalingv2.HorizontalPodAutoscaler
	AutoscalersErr error
	// APIServices are all APIServices.
	APIServices    []*apiregistrationv1.APIService
	APIServicesErr error
	// Extension are the facts about custom resources, webhooks and admission policies.
	Extension Extension
	// Contention are the Events about objects over which a controller and something else fight.
	Contention    []*corev1.Event
	ContentionErr error
}

// Gather gathers all facts. It returns when it has them or ctx has ended; a fact that is missing
// then has an error.
func Gather(ctx context.Context, config *rest.Config, version string) *Facts {
	f := &Facts{Now: time.Now(), Version: version, Server: config.Host}
	f.Client = report.CertificatesIn("client", config.CertData, config.CertFile)
	f.Token = config.BearerToken != "" || config.BearerTokenFile != "" || config.ExecProvider != nil || config.AuthProvider != nil
	if f.connect(ctx, config); f.Dial != nil {
		return f // Every other request would fail the same way.
	}
	if f.ready(ctx, config); f.ReadyErr != nil || f.ReadyCode == http.StatusUnauthorized {
		return f
	}
	var status report.Status
	if f.StatusErr = plane.GetJSON(ctx, config, report.StatusPath, &status); f.StatusErr == nil {
		f.Status = &status
	}
	f.objects(ctx, config)
	return f
}

// connect reads the certificates that the server presents, without requiring trust in them.
func (f *Facts) connect(ctx context.Context, config *rest.Config) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		f.Dial = fmt.Errorf("the kubeconfig's server %q is not a URL: %w", config.Host, err)
		return
	}
	if base.Scheme != "https" {
		f.Dial = fmt.Errorf("the kubeconfig's server %q is not https", config.Host)
		return
	}
	address := base.Host
	if base.Port() == "" {
		address = net.JoinHostPort(base.Hostname(), "443")
	}
	dialer := tls.Dialer{Config: &tls.Config{
		//nolint:gosec // Nothing is sent: the certificates are looked at below.
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, ServerName: base.Hostname(),
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		f.Dial = err
		return
	}
	defer func() { _ = conn.Close() }()
	if secured, ok := conn.(*tls.Conn); ok {
		f.Chain = secured.ConnectionState().PeerCertificates
	}
	if len(f.Chain) == 0 {
		f.Trust = errors.New("the server presents no certificate")
		return
	}
	f.Trust = trust(config, base.Hostname(), f.Chain)
}

// trust returns the reason why the kubeconfig's CA does not vouch for a server.
func trust(config *rest.Config, host string, chain []*x509.Certificate) error {
	if config.Insecure {
		return errors.New("the kubeconfig sets insecure-skip-tls-verify: anybody could impersonate the server")
	}
	opts := x509.VerifyOptions{DNSName: host, Intermediates: x509.NewCertPool()}
	if config.ServerName != "" {
		opts.DNSName = config.ServerName
	}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	authority := config.CAData
	if len(authority) == 0 && config.CAFile != "" {
		read, err := os.ReadFile(config.CAFile)
		if err != nil {
			return fmt.Errorf("reading the CA file in the kubeconfig: %w", err)
		}
		authority = read
	}
	if len(authority) > 0 {
		opts.Roots = x509.NewCertPool()
		if !opts.Roots.AppendCertsFromPEM(authority) {
			return errors.New("the CA in the kubeconfig is not a PEM certificate")
		}
	}
	_, err := chain[0].Verify(opts)
	return err
}

// ready reads the server's readiness.
func (f *Facts) ready(ctx context.Context, config *rest.Config) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		f.ReadyErr = err
		return
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		f.ReadyErr = err
		return
	}
	target := base.JoinPath("readyz")
	target.RawQuery = "verbose"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		f.ReadyErr = err
		return
	}
	began := time.Now()
	response, err := httpClient.Do(request)
	if err != nil {
		f.ReadyErr = err
		return
	}
	defer func() { _ = response.Body.Close() }()
	f.Took, f.ReadyCode = time.Since(began), response.StatusCode
	f.ServerTime, _ = http.ParseTime(response.Header.Get("Date")) // Zero if absent.
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReady))
	f.Ready, f.ReadyErr = string(body), err
}

// objects reads the facts that are API objects.
func (f *Facts) objects(ctx context.Context, config *rest.Config) {
	api, err := client.New(config, scheme.New())
	if err != nil {
		f.LeasesErr, f.NodesErr, f.ApiserversErr, f.Storage.Err = err, err, err, err
		f.AutoscalersErr, f.ContentionErr, f.APIServicesErr, f.Network.Err = err, err, err, err
		f.Extension.Err = err
		return
	}
	leases := client.Of[*coordinationv1.Lease](api)
	all, _, err := leases.List(ctx, metav1.NamespaceSystem, metav1.ListOptions{})
	f.LeasesErr = err
	f.Leases = byName(all)
	f.Network.gather(ctx, api)
	f.Storage.gather(ctx, api)
	if f.Nodes, _, f.NodesErr = client.Of[*corev1.Node](api).List(ctx, "", metav1.ListOptions{}); f.NodesErr == nil {
		var beats []*coordinationv1.Lease
		beats, _, f.NodesErr = leases.List(ctx, corev1.NamespaceNodeLease, metav1.ListOptions{})
		f.Heartbeats = byName(beats)
	}
	if f.Storage.Err == nil && slices.ContainsFunc(f.Nodes, func(node *corev1.Node) bool { return len(f.Storage.unknownFolders(node)) > 0 }) {
		f.Storage.Err = f.Storage.addVolumes(ctx, api) // They may have been created before the nodes were read.
	}
	f.Autoscalers, _, f.AutoscalersErr = client.Of[*autoscalingv2.HorizontalPodAutoscaler](api).List(ctx, "", metav1.ListOptions{})
	f.APIServices, _, f.APIServicesErr = client.Of[*apiregistrationv1.APIService](api).List(ctx, "", metav1.ListOptions{})
	f.Contention, _, f.ContentionErr = client.Of[*corev1.Event](api).List(ctx, "", metav1.ListOptions{FieldSelector: "reason=" + writeBackOff})
	found, _, err := client.Of[*discoveryv1.EndpointSlice](api).List(ctx, metav1.NamespaceDefault, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=kubernetes",
	})
	f.ApiserversErr = err
	for _, s := range found {
		for _, e := range s.Endpoints {
			f.Apiservers = append(f.Apiservers, e.Addresses...)
		}
	}
	f.Extension.gather(ctx, api) // Last, since schemas may be large, and the time for all is bounded.
}

func byName(leases []*coordinationv1.Lease) map[string]*coordinationv1.Lease {
	all := map[string]*coordinationv1.Lease{}
	for _, l := range leases {
		all[l.Name] = l
	}
	return all
}
