package spans_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/libs/trace/spans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	theirTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	sampled    = "00-" + theirTrace + "-00f067aa0ba902b7-01"
	unsampled  = "00-" + theirTrace + "-00f067aa0ba902b7-00"
)

// run runs a tracer during a test; sent stops it and returns its spans by name.
func run(t *testing.T, perMillion int) (tracer *spans.Tracer, sent func() map[string]tracetest.SpanStub) {
	t.Helper()
	exporter := &keeper{InMemoryExporter: tracetest.NewInMemoryExporter()}
	tracer, err := spans.New(spans.Config{Exporter: exporter, PerMillion: perMillion, Service: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tracer.Run(ctx) }()
	return tracer, func() map[string]tracetest.SpanStub {
		time.Sleep(10 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		found := map[string]tracetest.SpanStub{}
		for _, span := range exporter.GetSpans() {
			found[span.Name] = span
		}
		return found
	}
}

// keeper is an exporter that keeps its spans after its shutdown.
type keeper struct{ *tracetest.InMemoryExporter }

func (keeper) Shutdown(context.Context) error { return nil }

var pod = trace.Ref{Resource: "pods", Namespace: "n", Name: "p"}

func hop(step string) trace.Hop {
	return trace.Hop{Time: time.Now(), Took: 3 * time.Millisecond, Service: "scheduler", Step: step, Resource: "pods", Namespace: "n", Name: "p", Revision: 7}
}

func TestWriteIsFollowedThroughProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent, agentSpans := run(t, 0)
		apiserver, apiSpans := run(t, 0)
		ctx, end := apiserver.Begin(t.Context(), sampled, true, "PUT pods", map[string]string{"user": "alice"})
		note, traced := apiserver.Writing(ctx, pod)
		if !traced {
			t.Error("the write is not traced")
		}
		// A note that is late, but not too late.
		time.AfterFunc(100*time.Millisecond, func() { agent.Learn(note) })
		apiserver.Hop(hop(trace.Commit))
		end(500)
		parent := apiserver.Parent(pod)
		agent.Hop(hop(trace.Informer))
		agent.Hop(trace.Hop{Time: time.Now(), Step: trace.Informer, Resource: "nodes", Name: "x"})
		time.Sleep(200 * time.Millisecond)
		if got := agent.Parent(pod); got != parent {
			t.Errorf("the pod's parent is %q, want %q", got, parent)
		}
		if got := trace.HeaderOf(agent.Continue(t.Context(), pod)); got != parent {
			t.Errorf("writes for the pod belong to %q", got)
		}
		if got := trace.HeaderOf(agent.Continue(t.Context(), trace.Ref{Resource: "pods", Name: "other"})); got != "" {
			t.Errorf("writes for another pod belong to %q", got)
		}
		request := apiSpans()
		if got := request["PUT pods"]; parent == "" || got.Status.Code != codes.Error || len(got.Attributes) != 2 {
			t.Errorf("the request is %q: %v, %v", parent, got.Status, got.Attributes)
		}
		for name, stub := range map[string]tracetest.SpanStub{"commit pods": request["commit pods"], "informer pods": agentSpans()["informer pods"]} {
			if stub.Parent.SpanID() != request["PUT pods"].SpanContext.SpanID() || stub.SpanContext.TraceID().String() != theirTrace {
				t.Errorf("%s has parent %s in trace %s", name, stub.Parent.SpanID(), stub.SpanContext.TraceID())
			}
			if took := stub.EndTime.Sub(stub.StartTime); took != 3*time.Millisecond {
				t.Errorf("%s took %v", name, took)
			}
		}
		if root := request["PUT pods"]; root.Parent.TraceID().String() != theirTrace || root.SpanKind != oteltrace.SpanKindServer {
			t.Errorf("the request has parent trace %s, kind %v", root.Parent.TraceID(), root.SpanKind)
		}
	})
}

func TestSampling(t *testing.T) {
	for _, test := range []struct {
		name       string
		perMillion int
		header     string
		believed   bool
		sampled    bool
	}{
		{name: "nothing is sampled", header: ""},
		{name: "everything is sampled", perMillion: 1_000_000, sampled: true},
		{name: "a trusted caller, sampled", header: sampled, believed: true, sampled: true},
		{name: "a trusted caller, not sampled", perMillion: 1_000_000, header: unsampled, believed: true},
		{name: "an untrusted caller, sampled", header: sampled},
		{name: "an untrusted caller, not sampled", perMillion: 1_000_000, header: unsampled, sampled: true},
		{name: "an invalid header", perMillion: 1_000_000, header: "00-zz", believed: true, sampled: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracer, sent := run(t, test.perMillion)
				ctx, end := tracer.Begin(t.Context(), test.header, test.believed, "request", nil)
				_, traced := tracer.Writing(ctx, pod)
				end(200)
				stub, made := sent()["request"]
				if made != test.sampled || traced != test.sampled {
					t.Fatalf("span: %v, note: %v", made, traced)
				}
				if made && test.header != "" && !test.believed && (stub.SpanContext.TraceID().String() == theirTrace || len(stub.Links) != 1) {
					t.Errorf("an untrusted caller's trace: %s, links %v", stub.SpanContext.TraceID(), stub.Links)
				}
			})
		})
	}
}

func TestWritesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, sent := run(t, 0)
		tracer.Learn(trace.Note{Object: pod.Digest(), Parent: sampled})
		tracer.Learn(trace.Note{Object: trace.Ref{Name: "x"}.Digest(), Parent: "rubbish"})
		time.Sleep(2 * time.Minute)
		tracer.Hop(hop(trace.Reconcile))
		if got := tracer.Parent(pod) + tracer.Parent(trace.Ref{Name: "x"}); got != "" {
			t.Errorf("remembered: %q", got)
		}
		if got := sent(); len(got) != 0 {
			t.Errorf("spans for forgotten writes: %v", got)
		}
	})
}

func TestConfig(t *testing.T) {
	if _, err := spans.New(spans.Config{PerMillion: -1}); err == nil {
		t.Error("New accepts an empty configuration")
	}
}
