package faultpoint_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/garboard/garboard/test/containers/faultpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a runtime that counts calls.
type backend struct {
	cri.UnimplementedRuntimeServiceServer
	starts atomic.Int32
}

func (b *backend) CreateContainer(context.Context, *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	return &cri.CreateContainerResponse{ContainerId: "id-1"}, nil
}

func (b *backend) StartContainer(context.Context, *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	b.starts.Add(1)
	return &cri.StartContainerResponse{}, nil
}

func (b *backend) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	return &cri.ListPodSandboxResponse{}, nil
}

// serve returns a proxy in front of a counting runtime, and a client of the proxy.
func serve(t *testing.T) (*backend, *faultpoint.Proxy, cri.RuntimeServiceClient) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	b, server := &backend{}, grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, b)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	proxy := faultpoint.New(t, "unix://"+socket)
	conn, err := grpc.NewClient(proxy.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, proxy, cri.NewRuntimeServiceClient(conn)
}

// TestSides checks what becomes of a call whose caller leaves while it is held.
func TestSides(t *testing.T) {
	for _, test := range []struct {
		side  faultpoint.Side
		leave bool
		lose  bool
		// starts is the number of containers started by the runtime, code the caller's result.
		starts int32
		code   codes.Code
	}{
		{faultpoint.Before, false, false, 1, codes.OK},
		{faultpoint.Before, true, false, 0, codes.Canceled},
		{faultpoint.Before, false, true, 0, codes.Unavailable},
		{faultpoint.After, true, false, 1, codes.Canceled},
		{faultpoint.After, false, true, 1, codes.Unavailable},
		{faultpoint.Late, true, false, 1, codes.Canceled},
		{faultpoint.During, false, false, 1, codes.OK},
	} {
		t.Run(fmt.Sprintf("%s leaves %t lost %t", test.side, test.leave, test.lose), func(t *testing.T) {
			b, proxy, client := serve(t)
			trap := proxy.Set("StartContainer web", test.side)
			created, err := client.CreateContainer(t.Context(), &cri.CreateContainerRequest{
				Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "web"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			answered := make(chan error, 1)
			go func() {
				_, err := client.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: created.GetContainerId()})
				answered <- err
			}()
			<-trap.Reached()
			if test.leave {
				leave()
			}
			if test.lose {
				trap.Lose()
			} else {
				trap.Release()
			}
			if code := status.Code(<-answered); code != test.code {
				t.Errorf("the caller got %s, want %s", code, test.code)
			}
			if test.side == faultpoint.Late {
				// The call waits for a list.
				for b.starts.Load() == 0 {
					if _, err := client.ListPodSandbox(t.Context(), &cri.ListPodSandboxRequest{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			<-trap.Done()
			if starts := b.starts.Load(); starts != test.starts {
				t.Errorf("the runtime started %d containers, want %d", starts, test.starts)
			}
		})
	}
}

// TestPoints checks that changes are named by their subject, and reads by the change before them.
func TestPoints(t *testing.T) {
	_, proxy, client := serve(t)
	list := func() {
		t.Helper()
		if _, err := client.ListPodSandbox(t.Context(), &cri.ListPodSandboxRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	list()
	for range 2 {
		if _, err := client.CreateContainer(t.Context(), &cri.CreateContainerRequest{
			Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "web"}},
		}); err != nil {
			t.Fatal(err)
		}
		list()
		list()
	}
	want := []faultpoint.Point{
		"ListPodSandbox after the start", "CreateContainer web", "ListPodSandbox after CreateContainer web",
		"CreateContainer web #2", "ListPodSandbox after CreateContainer web #2",
	}
	if got := proxy.Points(); !slices.Equal(got, want) {
		t.Errorf("got the points %q, want %q", got, want)
	}
	proxy.Cut()
	if _, err := client.ListPodSandbox(t.Context(), &cri.ListPodSandboxRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("an agent that is cut off got %v, want Unavailable", err)
	}
	proxy.Mend()
	list()
}
