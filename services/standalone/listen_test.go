package standalone

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"go.uber.org/goleak"
)

const patience = 2 * time.Minute

// output collects what several goroutines write.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// started is a running plane.
type started struct {
	client        kubernetes.Interface
	progress, log *output
	dir           string
}

// up runs a plane without nodes until it reports that it is up, calls do, and stops it.
func up(t *testing.T, cfg Config, do func(started)) {
	t.Helper()
	s := started{progress: &output{}, log: &output{}, dir: cfg.DataDir}
	cfg.Runtime, cfg.Progress, cfg.Logger, cfg.Program = Simulated, s.progress, slog.New(slog.NewTextHandler(s.log, nil)), "garboard"
	plane, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- plane.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the plane ended with %v", err)
		}
	}()
	eventually(t, "the plane to be up", func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the plane ended at its start: %v\n%s", err, s.log)
		default:
		}
		if !strings.Contains(s.progress.String(), "Garboard is up") {
			return errors.New(s.progress.String())
		}
		return nil
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(cfg.DataDir, kubeconfigName))
	if err != nil {
		t.Fatal(err)
	}
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	do(s)
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// published reads the endpoints of the kubernetes Service.
func (s started) published(t *testing.T) (*corev1.Endpoints, *discoveryv1.EndpointSlice, error) {
	t.Helper()
	endpoints, err := s.client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	slice, err := s.client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	return endpoints, slice, err
}

// TestPublishes checks that a plane without a configured address publishes that of the default
// route, and serves there with a certificate for it. When it starts again at a loopback address, it
// withdraws the published one.
func TestPublishes(t *testing.T) {
	dir := t.TempDir()
	address, err := (Config{Logger: slog.New(slog.DiscardHandler)}).routed()
	if err != nil {
		t.Skipf("nothing to publish on this machine: %v", err)
	}
	up(t, Config{DataDir: dir, local: "127.0.0.1:0"}, func(s started) {
		endpoints, slice, err := s.published(t)
		if err != nil {
			t.Fatal(err)
		}
		if len(endpoints.Subsets) != 1 || len(endpoints.Subsets[0].Addresses) != 1 || len(endpoints.Subsets[0].Ports) != 1 ||
			len(slice.Endpoints) != 1 || len(slice.Ports) != 1 {
			t.Fatalf("got endpoints %+v and slice %+v", endpoints.Subsets, slice)
		}
		ip, port := endpoints.Subsets[0].Addresses[0].IP, endpoints.Subsets[0].Ports[0].Port
		if ip != address.String() || slice.Endpoints[0].Addresses[0] != ip || *slice.Ports[0].Port != port {
			t.Errorf("got published %s:%d and %+v, want %s", ip, port, slice, address)
		}
		reaches(t, dir, net.JoinHostPort(ip, fmt.Sprint(port)))
		if !strings.Contains(s.progress.String(), "Pods reach the API at "+ip) || strings.Contains(s.log.String(), "pods cannot reach") {
			t.Errorf("got progress and log\n%s\n%s", s.progress, s.log)
		}
	})
	up(t, Config{DataDir: dir, Listen: "127.0.0.1:0"}, func(s started) {
		eventually(t, "nothing to be published", func() error { return s.private(t) })
		if !strings.Contains(s.progress.String(), "Pods cannot reach the API, the kubernetes Service has no endpoints: --listen 127.0.0.1:0 is a loopback address; leave --listen out") ||
			!strings.Contains(s.log.String(), "pods cannot reach this apiserver") {
			t.Errorf("got progress and log\n%s\n%s", s.progress, s.log)
		}
	})
}

// private returns an error that describes what is published nevertheless.
func (s started) private(t *testing.T) error {
	t.Helper()
	if found, err := s.client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("found %+v, %w", found, err)
	}
	if found, err := s.client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("found %+v, %w", found, err)
	}
	return nil
}

// TestWithoutARoute checks that a plane without a default route serves only its own machine, and
// says why.
func TestWithoutARoute(t *testing.T) {
	none := func() (net.IP, error) { return nil, errors.New("no default routes found") }
	up(t, Config{DataDir: t.TempDir(), local: "127.0.0.1:0", choose: none}, func(s started) {
		if err := s.private(t); err != nil {
			t.Error(err)
		}
		if !strings.Contains(s.progress.String(), "no endpoints: this machine has no default route; give an address of this machine with --listen") ||
			!strings.Contains(s.log.String(), "pods cannot reach this apiserver") {
			t.Errorf("got progress and log\n%s\n%s", s.progress, s.log)
		}
	})
}

// reaches asks a server for its version, and verifies its certificate with the plane's authority.
func reaches(t *testing.T, dir, address string) {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), "gitVersion") {
		t.Errorf("%s: got response %s, %v", address, body, err)
	}
}

// TestJoined checks that a joined listener accepts on all its listeners, and closes them all.
func TestJoined(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var all []net.Listener
	for range 2 {
		listener, err := listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, listener)
	}
	one := join(all...)
	for _, listener := range append(all, all...) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		taken, err := one.Accept()
		if err != nil || taken.LocalAddr().String() != listener.Addr().String() {
			t.Fatalf("got connection %v, %v; want one at %v", taken, err, listener.Addr())
		}
		_, _ = taken.Close(), conn.Close()
	}
	// A connection that is no longer accepted is closed too.
	late, err := net.Dial("tcp", all[1].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if _, err := late.Read(make([]byte, 1)); err == nil {
		t.Error("the late connection is open")
	}
	_ = late.Close()
	if _, err := one.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting after the end: %v", err)
	}
	if err := one.Close(); err != nil || one.Addr().String() != all[0].Addr().String() {
		t.Errorf("closing twice: %v; the address is %v", err, one.Addr())
	}
	for _, listener := range all {
		if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
			_ = conn.Close()
			t.Errorf("%v is open", listener.Addr())
		}
	}
}
