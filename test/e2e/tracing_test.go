package e2e_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/garboard/garboard/test/e2e/plane"
)

// spanCollector is an OpenTelemetry collector that keeps the spans it receives.
type spanCollector struct {
	collector.UnimplementedTraceServiceServer

	mu     sync.Mutex
	traces map[string][]string // trace -> its spans, as SERVICE: NAME
}

// Export stores spans.
func (c *spanCollector) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		service := ""
		for _, attribute := range resource.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				service = attribute.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				id := fmt.Sprintf("%x", span.GetTraceId())
				c.traces[id] = append(c.traces[id], service+": "+span.GetName())
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestTracing follows one write of a user in one OpenTelemetry trace: the request, etcd, the bus,
// the informers and the resulting work, down to the containers.
func TestTracing(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &spanCollector{traces: map[string][]string{}}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("the collector ended with %v", err)
		}
	})
	p := separateServices(t, "--tracing-endpoint", "http://"+listener.Addr().String(), "--tracing-sampling-rate-per-million", "1000000")
	want := []string{
		"apiserver: create deployments", "apiserver: commit deployments", "apiserver: publish deployments",
		"controllers: informer deployments", "controllers: reconcile deployments",
		"apiserver: create replicasets", "controllers: reconcile replicasets", "apiserver: create pods",
		"scheduler: informer pods", "scheduler: bind pods", "apiserver: create pods/binding",
		"nodeagent: informer pods", "nodeagent: cri pods", "nodeagent: status pods", "apiserver: patch pods/status",
	}
	// A note that arrives too late leaves a gap in the trace. The test then creates another
	// Deployment, whose trace need not have one.
	var latest time.Time
	made := 0
	plane.Eventually(t, "a trace without a gap", func(context.Context) error {
		if time.Since(latest) > 15*time.Second {
			expect(t, p, "", `created`, "create", "deployment", fmt.Sprint("traced-", made), "--image=nginx")
			latest = time.Now()
			made++
		}
		missing := c.missing("apiserver: create deployments", want)
		if len(missing) > 0 {
			return fmt.Errorf("no trace of %d Deployments is complete; the best one lacks %s", made, strings.Join(missing, ", "))
		}
		return nil
	})
}

// missing returns the wanted spans that are missing in the most complete trace that contains the
// span with.
func (c *spanCollector) missing(with string, want []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := want
	for _, spans := range c.traces {
		if !slices.Contains(spans, with) {
			continue
		}
		var lacks []string
		for _, span := range want {
			if !slices.Contains(spans, span) {
				lacks = append(lacks, span)
			}
		}
		if len(lacks) < len(missing) {
			missing = lacks
		}
	}
	return missing
}
