package flags

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"

	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/trace/spans"
)

// tracing configures the export of spans; nothing is exported when endpoint is empty.
type tracing struct {
	endpoint   string
	perMillion int
}

func (t *tracing) flags(flags *pflag.FlagSet) {
	flags.StringVar(&t.endpoint, "tracing-endpoint", "", "URL of an OpenTelemetry collector that accepts OTLP over gRPC, http://HOST:4317 or https://HOST:4317; when empty, nothing is traced")
	flags.IntVar(&t.perMillion, "tracing-sampling-rate-per-million", 0, "number of requests in a million that start a trace; requests that the plane's own services or its administrators send with a trace always join it")
}

// Tracing returns the stage of the process that exports the hops that Trace records as spans. It
// must be the first, so that it ends last. It does nothing if nothing is traced.
func (s *Service) Tracing(log *slog.Logger) lifecycle.Stage {
	if s.tracing.endpoint == "" {
		return lifecycle.Stage{}
	}
	var tracer *spans.Tracer
	return lifecycle.Stage{
		Name: "tracing",
		Start: func(ctx context.Context) (err error) {
			tracer, err = s.newTracer(ctx, log)
			return err
		},
		Run: func(ctx context.Context) error { return tracer.Run(ctx) },
	}
}

// newTracer returns a tracer that gets the hops that Trace records.
func (s *Service) newTracer(ctx context.Context, log *slog.Logger) (*spans.Tracer, error) {
	t := s.tracing
	if u, err := url.Parse(t.endpoint); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("--tracing-endpoint %q is not a URL like http://HOST:4317", t.endpoint)
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(t.endpoint))
	if err != nil {
		return nil, fmt.Errorf("exporting to %s: %w", t.endpoint, err)
	}
	tracer, err := spans.New(spans.Config{Exporter: exporter, PerMillion: t.perMillion, Service: s.name, Version: s.version, Logger: log})
	if err != nil {
		return nil, err
	}
	s.hops.To(tracer)
	return tracer, nil
}
