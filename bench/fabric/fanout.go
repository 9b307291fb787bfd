package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/garboard/garboard/bench/fabric/messages"
	"github.com/garboard/garboard/bench/measure"
)

// fanOut measures the servers' cost of a change, by the number of informers that follow it.
func (b *bench) fanOut(ctx context.Context) error {
	w, err := b.newWorld(ctx, 1)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.fill(ctx, changedPods, changedPods); err != nil {
		return err
	}
	b.report.Table(fmt.Sprintf("Fan-out (%d changes, %d per second, median of %d; CPU in addition to that of an idle plane with the same informers)", b.changes, b.rate, b.repeats),
		"informers", "apiserver, µs of CPU per change", "NATS, µs per delivery", "start of the write → handler, median, ms", "99 %, ms")
	for _, n := range b.fanout {
		if err := w.fanOutTo(ctx, n); err != nil {
			return fmt.Errorf("to %d informers: %w", n, err)
		}
	}
	return nil
}

func (w *world) fanOutTo(ctx context.Context, n int) error {
	c, err := w.newCrowd(ctx, n)
	if err != nil {
		return err
	}
	defer c.process.Kill()
	if _, err := c.ask(ctx, messages.Start); err != nil {
		return err
	}
	var apiserver, nats, late []time.Duration
	for range w.bench.repeats {
		lasts := time.Duration(w.bench.changes) * time.Second / time.Duration(w.bench.rate)
		idle, err := spent(w.servers(), func() error {
			select {
			case <-time.After(lasts):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			return err
		}
		if _, err := c.ask(ctx, messages.Count); err != nil {
			return err
		}
		used, err := spent(w.servers(), func() error {
			last, err := w.write(ctx, changedPods, w.bench.changes)
			if err != nil {
				return err
			}
			_, err = c.ask(ctx, messages.Reach, last)
			return err
		})
		if err != nil {
			return err
		}
		counted, err := c.ask(ctx, messages.Count)
		if err != nil {
			return err
		}
		if counted.Calls < n*w.bench.changes*99/100 {
			return fmt.Errorf("handlers were called %d times for %d changes to %d informers", counted.Calls, w.bench.changes, n)
		}
		apiserver = append(apiserver, (used[0]-idle[0])/time.Duration(w.bench.changes))
		nats = append(nats, (used[2]-idle[2])/time.Duration(w.bench.changes*n))
		late = append(late, durations(counted.Late)...)
	}
	w.bench.report.Row(strconv.Itoa(n), micro(measure.Median(apiserver)), micro(measure.Median(nats)),
		milliseconds(measure.Median(late)), milliseconds(measure.Share(late, 0.99)))
	return nil
}
