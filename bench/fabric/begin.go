package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/garboard/garboard/bench/fabric/messages"
	"github.com/garboard/garboard/bench/measure"
)

// begin measures the cost for the servers when informers with empty stores start at once.
func (b *bench) begin(ctx context.Context) error {
	w, err := b.newWorld(ctx, 1)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.fill(ctx, b.pods, b.pods); err != nil {
		return err
	}
	b.report.Table(fmt.Sprintf("%d informers of %d pods start at once, with empty stores", b.readers, b.pods),
		"apiserver, s of CPU", "etcd, s", "NATS, s", "**together, s**", "apiserver before, MB", "**apiserver peak, MB**", "until the median informer had synced, s", "until the last one, s", "asks")
	for range b.repeats {
		if err := w.beginAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) beginAll(ctx context.Context) error {
	c, err := w.newCrowd(ctx, w.bench.readers)
	if err != nil {
		return err
	}
	defer c.process.Kill()
	apiserver := w.servers()[0]
	resident, err := apiserver.Resident()
	if err != nil {
		return err
	}
	if err := apiserver.ResetPeak(); err != nil {
		return err
	}
	var synced []time.Duration
	used, err := spent(w.servers(), func() error {
		began := time.Now()
		answer, err := c.ask(ctx, messages.Start)
		synced = after(began, answer.Reached)
		return err
	})
	if err != nil {
		return err
	}
	peak, err := apiserver.Peak()
	if err != nil {
		return err
	}
	counted, err := c.ask(ctx, messages.Count)
	if err != nil {
		return err
	}
	w.bench.report.Row(seconds(used[0]), seconds(used[1]), seconds(used[2]), seconds(sum(used)), megabytes(resident), megabytes(peak),
		seconds(measure.Median(synced)), seconds(measure.Share(synced, 1)), strconv.Itoa(counted.Asks))
	return nil
}
