// Package logstate exports the state of JetStream's logs of watch messages, for which JetStream has
// no Prometheus metrics itself.
package logstate

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/bus"
)

// patience is how long NATS may take to report the state of its logs at a scrape.
const patience = time.Second

// Log is the log whose state is read: *bus.LogReader.
type Log interface {
	State(ctx context.Context) (bus.LogState, error)
}

// Collector reads the state of logs at each scrape.
type Collector struct {
	logs map[string]Log

	up, messages, bytes, oldest, replicas, current *prometheus.Desc
}

// New returns a collector for logs, by the names of their streams.
func New(logs map[string]Log) *Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"stream"}, nil)
	}
	return &Collector{
		logs:     logs,
		up:       desc("garboard_log_up", "Whether JetStream has the log of watch messages and reports its state."),
		messages: desc("garboard_log_messages", "Messages in the log of watch messages."),
		bytes:    desc("garboard_log_bytes", "Bytes of the messages in the log of watch messages."),
		oldest:   desc("garboard_log_oldest_timestamp_seconds", "When the log stored its oldest message, in seconds since 1970; absent for an empty log."),
		replicas: desc("garboard_log_replicas", "The configured number of NATS servers that hold the log."),
		current:  desc("garboard_log_replicas_current", "The number of NATS servers that hold the whole log."),
	}
}

// Describe sends the descriptions of the metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.up, c.messages, c.bytes, c.oldest, c.replicas, c.current} {
		to <- desc
	}
}

// Collect reads the states and sends the metrics.
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
