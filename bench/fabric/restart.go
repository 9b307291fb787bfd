package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/fabric/messages"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/test/chaos/plane"
)

// downPause is how long a server stays down.
const downPause = 2 * time.Second

// restartApiserver measures the cost and the time until informers are current again after the only
// apiserver was killed and restarted, while objects are written to etcd.
func (b *bench) restartApiserver(ctx context.Context) error {
	return b.restart(ctx, "The only apiserver is killed and started again", func(ctx context.Context, w *world) error {
		w.Apiservers[0].Kill()
		if err := command.Pause(ctx, downPause); err != nil {
			return err
		}
		return w.Apiservers[0].Start(ctx)
	})
}

// restartNATS measures the same for the only NATS server.
func (b *bench) restartNATS(ctx context.Context) error {
	return b.restart(ctx, "The only NATS server is killed and started again", func(ctx context.Context, w *world) error {
		w.NATS[0].Kill()
		if err := command.Pause(ctx, downPause); err != nil {
			return err
		}
		return w.NATS[0].Restart(ctx)
	})
}

// settle waits until informers are idle, so that the next counts result from the next action only.
func (c *crowd) settle(ctx context.Context) error {
	for asks := -1; ; {
		counted, err := c.ask(ctx, messages.Count)
		if err != nil || counted.Asks == asks {
			return err
		}
		asks = counted.Asks
		// An informer leaves HTTP after the bus has worked for 10 s.
		if err := command.Pause(ctx, 6*downPause); err != nil {
			return err
		}
	}
}

func (b *bench) restart(ctx context.Context, what string, again func(context.Context, *world) error) error {
	w, err := b.newWorld(ctx, 1)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.fill(ctx, b.followed, b.followed); err != nil {
		return err
	}
	c, err := w.newCrowd(ctx, b.followers)
	if err != nil {
		return err
	}
	defer c.process.Kill()
	if _, err := c.ask(ctx, messages.Start); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	b.report.Table(fmt.Sprintf("%s: %d informers of %d pods, %d writes per second meanwhile, one in %d to a followed pod", what, b.followers, b.followed, b.rate, podEvery),
		"start → ready, s", "ready → the median informer has all its changes, s", "**→ the last one, s**", "→ the median is at etcd's revision, s", "→ the last one, s", "asks", "whole views", "turns to HTTP",
		"apiserver, s of CPU", "etcd, s", "NATS, s", "apiserver peak, MB", "NATS sent, messages", "MB")
	for range b.repeats {
		if err := w.restartOnce(ctx, c, again); err != nil {
			return err
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) restartOnce(ctx context.Context, c *crowd, again func(context.Context, *world) error) (err error) {
	counted, err := c.ask(ctx, messages.Count)
	if err != nil {
		return err
	}
	nats := w.NATS[0].PID()
	traffic, err := w.NATS[0].Traffic(ctx)
	if err != nil {
		return err
	}
	servers := w.servers()
	before, err := cpu(servers)
	if err != nil {
		return err
	}
	writing, stop := context.WithCancel(ctx)
	written := make(chan error, 1)
	var latest atomic.Int64
	go func() { written <- w.busy(writing, w.bench.followed, &latest) }()
	defer func() { stop(); err = errors.Join(err, <-written) }()
	if err := command.Pause(ctx, downPause); err != nil {
		return err
	}
	began := time.Now()
	if err := again(ctx, w); err != nil {
		return err
	}
	ready := time.Now()
	revision, err := w.Etcd.Revision(ctx)
	if err != nil {
		return err
	}
	equal, err := c.ask(ctx, messages.Reach, latest.Load())
	if err != nil {
		return err
	}
	current, err := c.ask(ctx, messages.Reach, revision)
	if err != nil {
		return err
	}
	now, err := c.ask(ctx, messages.Count)
	if err != nil {
		return err
	}
	peak, err := w.servers()[0].Peak()
	if err != nil {
		return err
	}
	used, err := w.usedSince(servers, before)
	if err != nil {
		return err
	}
	sent, err := w.NATS[0].Traffic(ctx)
	if err != nil {
		return err
	}
	if w.NATS[0].PID() != nats {
		traffic = plane.Traffic{} // the counters start again
	}
	w.bench.report.Row(seconds(ready.Sub(began)-downPause),
		seconds(measure.Median(after(ready, equal.Reached))), seconds(measure.Share(after(ready, equal.Reached), 1)),
		seconds(measure.Median(after(ready, current.Reached))), seconds(measure.Share(after(ready, current.Reached), 1)),
		strconv.Itoa(now.Asks-counted.Asks), strconv.Itoa(now.WholeViews-counted.WholeViews), strconv.Itoa(now.Fallbacks-counted.Fallbacks),
		seconds(used[0]), seconds(used[1]), seconds(used[2]), megabytes(peak),
		strconv.FormatInt(sent.Messages-traffic.Messages, 10), megabytes(sent.Bytes-traffic.Bytes))
	return nil
}

// usedSince returns the CPU time used by the servers; for restarted ones, since their start.
func (w *world) usedSince(servers []measure.Process, before []time.Duration) ([]time.Duration, error) {
	used, err := cpu(w.servers())
	if err != nil {
		return nil, err
	}
	for i, p := range w.servers() {
		if p.PID == servers[i].PID {
			used[i] -= before[i]
		}
	}
	return used, nil
}
