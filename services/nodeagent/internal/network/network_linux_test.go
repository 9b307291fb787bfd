package network_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent/internal/network"
	"github.com/garboard/garboard/services/nodeagent/internal/podnetwork"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder notes calls. Those that read Nodes fail, so that no test changes this machine's network.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) note(call client.Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := call.Verb + " " + call.Kind.Kind + "/" + call.Subresource; !slices.Contains(r.calls, text) {
		r.calls = append(r.calls, text)
	}
	if call.Kind.Kind == "Node" {
		return errors.New("no Nodes here")
	}
	return nil
}

func (r *recorder) noted() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// config returns the configuration of a node whose Node has a UID once registered is closed.
func config(t *testing.T, registered <-chan struct{}) (network.Config, *recorder) {
	t.Helper()
	dir, quiet, calls := t.TempDir(), slog.New(slog.DiscardHandler), &recorder{}
	api := fake.New(scheme.New(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: nodeapi.NetworkAccountNamespace, Name: nodeapi.NetworkAccount},
	})
	api.Fail(calls.note)
	shell := service.New(service.Config{Identity: "a", Logger: quiet, Registerer: prometheus.NewRegistry()}, service.Role{Name: "node-agent"})
	shell.Use(api, listwatch.New(api, quiet))
	return network.Config{
		NodeName: "a", Address: netip.MustParseAddr("10.0.0.1"), Client: api, TokenFile: filepath.Join(dir, "token"), Shell: shell,
		Node: func() *corev1.Node {
			select {
			case <-registered:
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-1"}}
			default:
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			}
		},
		PodNetwork:   network.PodNetwork{Mode: podnetwork.Auto, CNIConfDir: filepath.Join(dir, "cni")},
		LocalAddress: netip.MustParseAddr("169.254.20.10"), PodNamespace: func(netip.Addr) (string, bool) { return "", false },
		Events:  func(runtime.Object, string, string, string) {},
		DataDir: dir, Logger: quiet, Registerer: prometheus.NewRegistry(),
	}, calls
}

// withPods switches the pod network on, and leaves the other parts off.
func withPods(cfg *network.Config) { cfg.PodNetwork.On = true }

// TestTheTokenComesFirst: nothing is read before the token is there, which needs the Node.
func TestTheTokenComesFirst(t *testing.T) { synctest.Test(t, testTheTokenComesFirst) }

func testTheTokenComesFirst(t *testing.T) {
	registered := make(chan struct{})
	cfg, calls := config(t, registered)
	withPods(&cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := within(t, func() error { return network.New(cfg).Run(ctx) })
	time.Sleep(time.Minute)
	if got := calls.noted(); len(got) != 0 {
		t.Errorf("before the node is registered: %v", got)
	}
	close(registered)
	time.Sleep(time.Minute)
	got := calls.noted()
	if len(got) < 2 || got[0] != "create ServiceAccount/token" || !slices.Contains(got, "list Node/") && !slices.Contains(got, "watch Node/") {
		t.Errorf("after it: %v", got)
	}
	if text, err := os.ReadFile(cfg.TokenFile); err != nil || len(text) == 0 {
		t.Errorf("the token is %q: %v", text, err)
	}
	if _, err := os.Stat(cfg.PodNetwork.CNIConfDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pods have a network before the Nodes are known: %v", err)
	}
	// The token is renewed while the parts run.
	if err := os.Remove(cfg.TokenFile); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	if _, err := os.Stat(cfg.TokenFile); err != nil {
		t.Errorf("the token was not renewed: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// TestEndBeforeTheToken: Run ends although the node was never registered.
func TestEndBeforeTheToken(t *testing.T) { synctest.Test(t, testEndBeforeTheToken) }

func testEndBeforeTheToken(t *testing.T) {
	cfg, calls := config(t, make(chan struct{}))
	withPods(&cfg)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := <-within(t, func() error { return network.New(cfg).Run(ctx) }); err != nil || len(calls.noted()) != 0 {
		t.Errorf("%v after %v", err, calls.noted())
	}
}
