package main

import (
	"context"
	"strconv"
	"time"

	"github.com/garboard/garboard/bench/measure"
)

const (
	// writePause is the interval between writes; a write does not wait for the previous one.
	writePause = 5 * time.Millisecond
	// bareBelow is the etcd prefix of the bare paths, each of which has its own folder.
	bareBelow = "/bare/"
	// writtenPods is the number of pods that are written, in turn.
	writtenPods = 100
)

// hops measures how long a change takes from etcd's acknowledgement to a handler, and where the
// time goes. For comparison, it measures the shortest possible path from etcd to a subscriber.
func (b *bench) hops(ctx context.Context) error {
	w, err := b.newWorld(ctx, 1)
	if err != nil {
		return err
	}
	defer w.Close()
	bare, err := w.newBarePath(ctx, "bare", "")
	if err != nil {
		return err
	}
	defer bare.close()
	kept, err := w.newBarePath(ctx, "kept", "KEPT")
	if err != nil {
		return err
	}
	defer kept.close()
	full, err := w.newFullPath(ctx)
	if err != nil {
		return err
	}
	defer full.close()
	if err := full.makePods(ctx); err != nil {
		return err
	}
	columns := map[string][]time.Duration{}
	var apiserver []time.Duration
	if b.profiles != "" {
		if err := full.profile(ctx); err != nil {
			return err
		}
	}
	for range b.repeats {
		for _, path := range []*barePath{bare, kept} {
			if err := path.measure(ctx, columns); err != nil {
				return err
			}
		}
		used, err := full.measure(ctx, columns)
		if err != nil {
			return err
		}
		apiserver = append(apiserver, used)
		if err := full.measureHops(ctx, columns); err != nil {
			return err
		}
		if err := full.measureAPI(ctx, columns); err != nil {
			return err
		}
	}
	n := strconv.Itoa(b.repeats * b.writes)
	b.report.Table("Hops of a change ("+n+" writes, one every "+writePause.String()+")", "from", "to", "median, µs", "90 %, µs")
	row := func(from, to, name string) {
		b.report.Row(from, to, micro(measure.Median(columns[name])), micro(measure.Share(columns[name], 0.9)))
	}
	row("bare path: etcd acknowledged", "subscriber called (etcd watch, one NATS publish)", "bare")
	row("– etcd acknowledged", "relay publishes (etcd watch)", "bare taken")
	row("– publishes", "subscriber called (NATS)", "bare carried")
	row("the same path with a log", "subscriber called (JetStream stores the messages)", "kept")
	row("– publishes", "subscriber called (NATS)", "kept carried")
	row("etcd acknowledged", "**handler called**", "handled")
	row("with a second subscriber: etcd acknowledged", "handler called", "all")
	row("– etcd acknowledged", "apiserver begins to publish (etcd watch, feed)", "taken")
	row("– begins to publish", "published (encoding, NATS client)", "published")
	row("– published", "message at another subscriber (NATS)", "carried")
	row("– message received", "handler called (decoding, rules, store, queue)", "applied")
	row("PATCH sent to the API", "response received", "request")
	row("PATCH response received", "handler called", "answered")
	b.report.Printf("\nThe handler is called after %.2f times the time of the bare path. CPU of the apiserver per direct write: %s µs.\n",
		float64(measure.Median(columns["handled"]))/float64(measure.Median(columns["bare"])), micro(measure.Median(apiserver)/time.Duration(b.writes)))
	return nil
}

// writeEach writes pods one after the other, and returns when each was acknowledged.
func (w *world) writeEach(ctx context.Context, below string) (acknowledged map[int64]time.Time, last int64, err error) {
	acknowledged = map[int64]time.Time{}
	tick := time.NewTicker(writePause)
	defer tick.Stop()
	for i := range w.bench.writes {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		name := podName(i % writtenPods)
		revision, err := w.put(ctx, below, name, i%writtenPods, w.uid(name))
		if err != nil {
			return nil, 0, err
		}
		acknowledged[revision], last = time.Now(), revision
	}
	return acknowledged, last, nil
}
