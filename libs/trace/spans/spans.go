// Package spans turns requests and the hops of package trace into OpenTelemetry spans. One trace
// then shows a write from its request through etcd, the bus and informers to its effects.
//
// A hop belongs to the latest sampled write of its object. Every process learns of such a write by
// a note (Tracer.Writing, Tracer.Learn), sent when the write begins so that it arrives before the
// watch message. What a reconcile or a binding then writes continues the trace by the header
// traceparent (https://www.w3.org/TR/trace-context/). A note that arrives too late leaves a gap in
// the trace and has no other effect.
package spans

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/trace"
)

const (
	// hold is how long a hop waits for a note about its object.
	hold = 500 * time.Millisecond
	// memory is how long after a sampled write the hops of its object belong to it; maxObjects is
	// how many such writes are remembered.
	memory, maxObjects = time.Minute, 10_000
	// pending is how many hops may wait; further ones are not traced.
	pending = 10_000
	// endTimeout bounds the sending of the last spans.
	endTimeout = 5 * time.Second
)

// Config sets what is traced, and where spans go.
type Config struct {
	// Exporter receives the spans; required.
	Exporter sdktrace.SpanExporter
	// PerMillion is how many of a million requests without a trace of their own are sampled.
	PerMillion int
	// Service and Version name the process.
	Service, Version string
	// Logger logs exporter errors; nil means slog.Default.
	Logger *slog.Logger
}

// Tracer creates spans. It is safe for concurrent use.
type Tracer struct {
	cfg      Config
	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
	hops     chan trace.Hop

	mu      sync.Mutex
	parents map[string]parent // by the object's digest
}

type parent struct {
	span  oteltrace.SpanContext
	since time.Time
}

// New returns a tracer.
func New(cfg Config) (*Tracer, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var errs []error
	if cfg.Exporter == nil {
		errs = append(errs, errors.New("no exporter is set"))
	}
	if cfg.PerMillion < 0 || cfg.PerMillion > 1_000_000 {
		errs = append(errs, fmt.Errorf("the sampling rate %d is not between 0 and 1000000", cfg.PerMillion))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("configuring tracing: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(cfg.Exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(cfg.PerMillion)/1e6))),
		sdktrace.WithResource(sdkresource.NewSchemaless(
			attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version))),
	)
	return &Tracer{
		cfg: cfg, provider: provider, tracer: provider.Tracer("github.com/garboard/garboard"),
		hops: make(chan trace.Hop, pending), parents: map[string]parent{},
	}, nil
}

// Run emits the hops passed to Hop until ctx ends, and then flushes the last spans.
func (t *Tracer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
			defer cancel()
			if err := t.provider.Shutdown(last); err != nil {
				t.cfg.Logger.Warn("could not send the last spans", "err", err)
			}
			return nil
		case hop := <-t.hops:
			if wait := time.Until(hop.Time.Add(hold)); wait > 0 {
				backoff.Sleep(ctx, wait)
			}
			t.emit(hop)
		}
	}
}

// Hop queues a hop, of which Run later creates a span. It never blocks.
func (t *Tracer) Hop(hop trace.Hop) {
	if hop.Step == trace.Request {
		return // A request has a span of its own.
	}
	select {
	case t.hops <- hop:
	default:
	}
}

func (t *Tracer) emit(hop trace.Hop) {
	span := t.parentOf(refOf(hop))
	if !span.IsSampled() {
		return
	}
	ctx := oteltrace.ContextWithRemoteSpanContext(context.Background(), span)
	attributes := []attribute.KeyValue{
		attribute.String("garboard.by", hop.Service), attribute.String("garboard.resource", hop.Resource), attribute.String("garboard.name", hop.Name),
	}
	if hop.Namespace != "" {
		attributes = append(attributes, attribute.String("garboard.namespace", hop.Namespace))
	}
	if hop.Revision != 0 {
		attributes = append(attributes, attribute.Int64("garboard.revision", hop.Revision))
	}
	if hop.Detail != "" {
		attributes = append(attributes, attribute.String("garboard.detail", hop.Detail))
	}
	_, made := t.tracer.Start(ctx, hop.Step+" "+hop.Resource, oteltrace.WithTimestamp(hop.Time.Add(-hop.Took)),
		oteltrace.WithAttributes(attributes...))
	made.End(oteltrace.WithTimestamp(hop.Time))
}

// Begin starts the span of a request, which belongs to the trace in its header if the caller is
// trusted (believed).
func (t *Tracer) Begin(ctx context.Context, header string, believed bool, name string,
	attributes map[string]string) (context.Context, func(status int)) {
	options := []oteltrace.SpanStartOption{oteltrace.WithSpanKind(oteltrace.SpanKindServer)}
	if from := parse(header); from.IsValid() {
		if believed {
			ctx = oteltrace.ContextWithRemoteSpanContext(ctx, from)
		} else {
			// Untrusted clients must not decide how much is traced.
			options = append(options, oteltrace.WithLinks(oteltrace.Link{SpanContext: from}))
		}
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	for key, value := range attributes {
		span.SetAttributes(attribute.String(key, value))
	}
	return ctx, func(status int) {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
		span.End()
	}
}

// Writing records that the request of ctx begins to write an object, and returns the note for other
// processes.
func (t *Tracer) Writing(ctx context.Context, object trace.Ref) (note trace.Note, traced bool) {
	span := oteltrace.SpanContextFromContext(ctx)
	if !span.IsSampled() {
		return trace.Note{}, false
	}
	t.learn(object.Digest(), span)
	return trace.Note{Object: object.Digest(), Parent: format(span)}, true
}

// Learn records a note of another process. It ignores one that it cannot parse.
func (t *Tracer) Learn(note trace.Note) {
	if span := parse(note.Parent); span.IsSampled() {
		t.learn(note.Object, span)
	}
}

func (t *Tracer) learn(object string, span oteltrace.SpanContext) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.parents) >= maxObjects {
		for old, p := range t.parents {
			if now.Sub(p.since) > memory {
				delete(t.parents, old)
			}
		}
	}
	if _, known := t.parents[object]; known || len(t.parents) < maxObjects {
		t.parents[object] = parent{span, now}
	}
}

func (t *Tracer) parentOf(object trace.Ref) oteltrace.SpanContext {
	digest := object.Digest()
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.parents[digest]
	if ok && time.Since(p.since) > memory {
		delete(t.parents, digest)
		return oteltrace.SpanContext{}
	}
	return p.span
}

// Continue returns a context whose writes belong to the trace of an object's latest write.
func (t *Tracer) Continue(ctx context.Context, object trace.Ref) context.Context {
	span := t.parentOf(object)
	if !span.IsSampled() {
		return ctx
	}
	return trace.WithHeader(ctx, format(span))
}

// Parent returns the trace of an object's latest write; empty if it is not traced.
func (t *Tracer) Parent(object trace.Ref) string { return format(t.parentOf(object)) }

func refOf(hop trace.Hop) trace.Ref {
	return trace.Ref{Resource: hop.Resource, Namespace: hop.Namespace, Name: hop.Name}
}

func format(span oteltrace.SpanContext) string {
	if !span.IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(oteltrace.ContextWithSpanContext(context.Background(), span), carrier)
	return carrier[strings.ToLower(trace.Header)]
}

func parse(header string) oteltrace.SpanContext {
	if header == "" {
		return oteltrace.SpanContext{}
	}
	carrier := propagation.MapCarrier{strings.ToLower(trace.Header): header}
	return oteltrace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
