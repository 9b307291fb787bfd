package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/node"
	"github.com/garboard/garboard/bench/sample"
)

// result is what one turn of one side has measured.
type result struct {
	programmed, programmedCPU time.Duration
	change, changeMost        time.Duration // median and largest of the turn
	changeCPU                 time.Duration
	first, last               time.Duration // connections through the first and the last Service
	failed                    int           // of these connections
	resident, anonymous, peak int64
}

const (
	// samples is the number of Services that must work before all count as programmed.
	samples = 20
	// settle is the time after that in which CPU still counts as programming.
	settle = 2 * time.Second
	// idleFor is the time over which the CPU of doing nothing is measured.
	idleFor = 5 * time.Second
	// burst is the time in which endpoints change without a pause, to measure CPU.
	burst = 10 * time.Second
	// connections is the number of connections per median.
	connections = 500
)

// changed returns the Service whose endpoint changes.
func (b *bench) changed() int { return b.services[0] / 2 }

// measure starts one side, measures it, and stops it.
func (b *bench) measure(ctx context.Context, s side, n int) (r result, err error) {
	program, err := s.start()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, program.Stop(), removeRules(ctx)) }()
	if err := b.fromNothing(ctx, program, n, &r); err != nil {
		return r, err
	}
	if err := b.check(ctx, n); err != nil {
		return r, err
	}
	if r.peak, err = program.Peak(); err != nil {
		return r, err
	}
	if r.resident, r.anonymous, err = b.rest(ctx, program); err != nil {
		return r, err
	}
	var first, last []time.Duration
	for range connections {
		for _, one := range []struct {
			service int
			to      *[]time.Duration
		}{{0, &first}, {n - 1, &last}} {
			took, _, err := connect(ctx, one.service)
			if err != nil {
				r.failed++ // Whoever wrote the rules has to answer for it.
			}
			*one.to = append(*one.to, took)
		}
	}
	r.first, r.last = measure.Median(first), measure.Median(last)
	return r, b.changeEndpoints(ctx, program, &r)
}

// fromNothing waits until all Services work.
func (b *bench) fromNothing(ctx context.Context, program *node.Program, n int, r *result) error {
	next := 0 // of the samples
	err := program.Wait(ctx, b.programs, func() bool {
		for next < samples {
			if _, _, err := connectFrom(ctx, watcher, next*(n-1)/(samples-1)); err != nil {
				return false
			}
			next++
		}
		return true
	})
	if err != nil {
		return err
	}
	r.programmed = time.Since(program.Began)
	if err := command.Pause(ctx, settle); err != nil {
		return err
	}
	r.programmedCPU, err = program.Family()
	return err
}

// changeEndpoints replaces one endpoint of one Service, again and again.
func (b *bench) changeEndpoints(ctx context.Context, program *node.Program, r *result) error {
	idle, err := spent(program, func() error { return command.Pause(ctx, idleFor) })
	if err != nil {
		return err
	}
	rules, err := openKernel()
	if err != nil {
		return err
	}
	defer rules.close()
	var took []time.Duration
	for range b.changes {
		one, err := b.change(ctx, rules)
		if err != nil {
			return err
		}
		took = append(took, one)
		if err := command.Pause(ctx, b.pause-one); err != nil {
			return err
		}
	}
	r.change, r.changeMost = measure.Median(took), measure.Share(took, 1)
	// Without pauses, so that little else is measured.
	made, began := 0, time.Now()
	used, err := spent(program, func() error {
		for ; time.Since(began) < burst; made++ {
			if _, err := b.change(ctx, rules); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	idle = time.Duration(float64(idle) * float64(time.Since(began)) / float64(idleFor))
	r.changeCPU = (used - idle) / time.Duration(made)
	return nil
}

// change replaces the first endpoint of a Service, and returns the time from the start of the write until the
// kernel has it. It then looks whether connections get there.
func (b *bench) change(ctx context.Context, rules *kernel) (time.Duration, error) {
	b.round++
	address := netip.AddrFrom4([4]byte{10, 180, byte(b.round >> 8), byte(b.round)})
	slice := sample.EndpointSlice(b.changed())
	slice.Endpoints[0].Addresses[0] = address.String()
	began := time.Now()
	if _, err := b.node.Client.DiscoveryV1().EndpointSlices(node.Namespace).Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("changing an endpoint: %w", err)
	}
	held, err := rules.named(address)
	if err != nil {
		return 0, err
	}
	took := held.Sub(began)
	const tries = 500 // each of which has a chance of one in ten
	for range tries {
		if _, endpoint, err := connect(ctx, b.changed()); err == nil && endpoint == address {
			return took, nil
		}
	}
	return 0, fmt.Errorf("of %d connections none reaches the new endpoint %s", tries, address)
}

// spent returns the CPU time that a program used for some work.
func spent(p *node.Program, work func() error) (time.Duration, error) {
	before, err := p.Family()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := p.Family()
	return after - before, err
}
