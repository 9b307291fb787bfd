// Package logstate shows how the logs of watch messages are in JetStream, which has no metrics of
// Prometheus' kind itself.
package logstate

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/bus"
)

// patience is how long NATS may take to say how its logs are when the metrics are read.
const patience = time.Second

// Log is what is asked: *bus.LogReader.
type Log interface {
	State(ctx context.Context) (bus.LogState, error)
}

// Collector asks for the state of logs whenever the metrics are read.
type Collector struct {
	logs map[string]Log

	up, messages, bytes, oldest, replicas, current *prometheus.Desc
}

// New makes a collector for logs, by the names of their streams.
func New(logs map[string]Log) *Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"stream"}, nil)
	}
	return &Collector{
		logs:     logs,
		up:       desc("garboard_log_up", "Whether JetStream has the log of watch messages, and tells how it is."),
		messages: desc("garboard_log_messages", "Messages in the log of watch messages."),
		bytes:    desc("garboard_log_bytes", "Bytes of the messages in the log of watch messages."),
		oldest:   desc("garboard_log_oldest_timestamp_seconds", "When the log took its oldest message, in seconds since 1970; none for an empty log."),
		replicas: desc("garboard_log_replicas", "How many NATS servers are to hold the log."),
		current:  desc("garboard_log_replicas_current", "How many NATS servers hold all of the log."),
	}
}

// Describe names the metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.up, c.messages, c.bytes, c.oldest, c.replicas, c.current} {
		to <- desc
	}
}

// Collect asks for the states.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for stream, log := range c.logs {
		gauge := func(desc *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, stream)
		}
		state, err := log.State(ctx)
		if err != nil {
			gauge(c.up, 0)
			continue
		}
		gauge(c.up, 1)
		gauge(c.messages, float64(state.Messages))
		gauge(c.bytes, float64(state.Bytes))
		gauge(c.replicas, float64(state.Replicas))
		gauge(c.current, float64(state.Current))
		if !state.Oldest.IsZero() {
			gauge(c.oldest, float64(state.Oldest.UnixMilli())/1000)
		}
	}
}
