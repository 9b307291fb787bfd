package simulated

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"net/netip"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkRelist measures the cost per second of an agent on a full node.
func BenchmarkRelist(b *testing.B) {
	r, err := New(Config{Dir: b.TempDir(), PodCIDR: netip.MustParsePrefix("10.9.0.0/24")})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	client, err := runtime.Connect(ctx, r.Endpoint(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := r.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: "nginx"}}); err != nil {
		b.Fatal(err)
	}
	for i := range 110 {
		config := pod(fmt.Sprint(i), nil)
		made, err := r.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
		if err != nil {
			b.Fatal(err)
		}
		created, err := r.CreateContainer(ctx, &cri.CreateContainerRequest{
			PodSandboxId: made.GetPodSandboxId(), SandboxConfig: config,
			Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "main"}, Image: &cri.ImageSpec{Image: "nginx"}},
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: created.GetContainerId()}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Sandboxes(ctx); err != nil {
			b.Fatal(err)
		}
		if _, err := client.Containers(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
