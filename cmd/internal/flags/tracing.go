package flags

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"

	"github.com/garboard/garboard/libs/daemon"
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

// Tracing starts tracing: it exports the hops that Trace records as spans. It returns the part of
// the process that does so and must end last; no part if nothing is traced.
func (s *Service) Tracing(ctx context.Context, log *slog.Logger) ([]daemon.Part, error) {
	t := s.tracing
	if t.endpoint == "" {
		return nil, nil
	}
	if u, err := url.Parse(t.endpoint); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("--tracing-endpoint %q is not a URL like http://HOST:4317", t.endpoint)
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(t.endpoint))
	if err != nil {
		return nil, fmt.Errorf("tracing to %s: %w", t.endpoint, err)
	}
	tracer, err := spans.New(spans.Config{Exporter: exporter, PerMillion: t.perMillion, Service: s.name, Version: s.version, Logger: log})
	if err != nil {
		return nil, err
	}
	s.hops.To(tracer)
	return []daemon.Part{{Name: "tracing", Run: tracer.Run}}, nil
}
