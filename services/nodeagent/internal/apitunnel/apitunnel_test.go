package apitunnel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/apitunnel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet logs nothing.
var quiet = slog.New(slog.DiscardHandler)

// apiservers returns the EndpointSlice of the apiservers.
func apiservers(addresses ...string) *discoveryv1.EndpointSlice {
	port := int32(6443)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Ports:      []discoveryv1.EndpointPort{{Port: &port}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}

// factory returns a factory over objects, which runs until the test ends.
func factory(t *testing.T, slices ...*discoveryv1.EndpointSlice) (made *informer.Factory, run func(ctx context.Context) error) {
	t.Helper()
	table := scheme.New()
	var objects []scheme.Object
	for _, slice := range slices {
		objects = append(objects, slice)
	}
	api := fake.New(table, objects...)
	made = informer.NewFactory(informer.FactoryConfig{Source: listwatch.New(api, quiet), Table: table, Logger: quiet})
	return made, made.Run
}

// TestAddress: the tunnel stands for the apiservers exactly while one of them cannot be reached, or none is known.
func TestAddress(t *testing.T) {
	listen := netip.MustParseAddrPort("127.0.0.1:0")
	for name, c := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		up     []string
		want   bool
	}{
		"all answer":            {[]*discoveryv1.EndpointSlice{apiservers("192.0.2.1", "192.0.2.2")}, []string{"192.0.2.1:6443", "192.0.2.2:6443"}, false},
		"one does not":          {[]*discoveryv1.EndpointSlice{apiservers("192.0.2.1", "192.0.2.2")}, []string{"192.0.2.1:6443"}, true},
		"none does":             {[]*discoveryv1.EndpointSlice{apiservers("192.0.2.1")}, nil, true},
		"none is known":         {nil, nil, true},
		"an IPv6 address":       {[]*discoveryv1.EndpointSlice{apiservers("2001:db8::1")}, []string{"[2001:db8::1]:6443"}, false},
		"another Service's":     {[]*discoveryv1.EndpointSlice{named("other", apiservers("192.0.2.1"))}, []string{"192.0.2.1:6443"}, true},
		"an endpoint of none":   {[]*discoveryv1.EndpointSlice{{ObjectMeta: apiservers().ObjectMeta, Endpoints: []discoveryv1.Endpoint{{}}}}, nil, true},
		"another's namespace's": {[]*discoveryv1.EndpointSlice{elsewhere(apiservers("192.0.2.1"))}, []string{"192.0.2.1:6443"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made, run := factory(t, c.slices...)
				var changes atomic.Int32
				tunnel := apitunnel.New(apitunnel.Config{
					Listen: listen, Factory: made, Logger: quiet,
					Dial: func(_ context.Context, _, address string) (net.Conn, error) {
						if slices.Contains(c.up, address) {
							here, there := net.Pipe()
							return here, there.Close()
						}
						return nil, errors.New("no route")
					},
				})
				if tunnel.Address().IsValid() {
					t.Error("it stands for the apiservers before they are known")
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = run(ctx) })
				running.Go(func() { tunnel.Probe(ctx, func() { changes.Add(1) }) })
				time.Sleep(time.Minute)
				if got := tunnel.Address().IsValid(); got != c.want {
					t.Errorf("it stands for the apiservers: %t, want %t", got, c.want)
				}
				if want := map[bool]int32{true: 1}[c.want]; changes.Load() != want {
					t.Errorf("%d changes were told, want %d", changes.Load(), want)
				}
				cancel()
				running.Wait()
			})
		})
	}
}

func named(name string, slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice.Labels[discoveryv1.LabelServiceName] = name
	return slice
}

func elsewhere(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice.Namespace = "kube-system"
	return slice
}

// TestConnections: bytes pass both ways, each direction ends on its own, a connection that cannot be passed on is
// closed, and the end of the tunnel ends all.
func TestConnections(t *testing.T) {
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := api.Accept()
			if err != nil {
				return
			}
			served.Go(func() { // It answers once the client has said all.
				said, _ := io.ReadAll(conn)
				_, _ = fmt.Fprintf(conn, "heard %s", said)
				_ = conn.Close()
			})
		}
	})
	var away atomic.Bool
	at := freePort(t)
	made, run := factory(t, apiservers("127.0.0.1"))
	tunnel := apitunnel.New(apitunnel.Config{
		Listen: at, Factory: made, Logger: quiet,
		Open: func(context.Context) (net.Conn, error) {
			if away.Load() {
				return nil, errors.New("no apiserver answers")
			}
			return net.Dial("tcp", api.Addr().String())
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = run(ctx) })
	running.Go(func() {
		if err := tunnel.Run(ctx, func() {}); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	for i := range 3 {
		conn := dial(t, at)
		if _, err := fmt.Fprintf(conn, "pod %d", i); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); err != nil || string(answer) != fmt.Sprintf("heard pod %d", i) {
			t.Errorf("got %q, %v", answer, err)
		}
		_ = conn.Close()
	}
	away.Store(true)
	refused := dial(t, at)
	if answer, err := io.ReadAll(refused); len(answer) > 0 {
		t.Errorf("without an apiserver a pod reads %q, %v", answer, err)
	}
	_ = refused.Close()
	away.Store(false)
	open := dial(t, at)
	if _, err := io.WriteString(open, "half a request"); err != nil {
		t.Fatal(err)
	}
	cancel()
	running.Wait()
	if _, err := io.ReadAll(open); err != nil && !errors.Is(err, io.EOF) {
		t.Logf("the open connection ended with %v", err)
	}
	_ = open.Close()
	_ = api.Close()
	served.Wait()
}

// freePort returns an address that is free at the moment.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return netip.MustParseAddrPort(listener.Addr().String())
}

// dial connects with the tunnel, once it listens.
func dial(t *testing.T, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	for began := time.Now(); ; {
		conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			return conn
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}
