package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/garboard/garboard/test/chaos/plane"
)

// faultLimit bounds the time of a fault including its repair.
const faultLimit = 10 * time.Minute

// runner injects faults into one plane.
type runner struct {
	options
	report  *report
	random  *rand.Rand
	servers int
	stage   *stage
	seen    int // violations
}

func (r *runner) run(ctx context.Context, binaries plane.Binaries) (err error) {
	once := r.wanted(r.servers)
	if len(once) == 0 && (r.soak == 0 || r.only != "") {
		return nil
	}
	began := time.Now()
	r.stage, err = newStage(ctx, binaries, filepath.Join(r.dir, fmt.Sprintf("nats-%d", r.servers)), r.servers, r.random, r.long)
	defer func() { err = errors.Join(err, r.stage.close()) }()
	if err != nil {
		return err
	}
	fmt.Printf("\n%d NATS servers, %d apiservers, %d informers, %d writes/s; ready after %s\n",
		r.servers, apiservers, processes*informersEach, writeRate, seconds(time.Since(began)))
	for _, f := range once {
		if err := r.happen(ctx, f); err != nil {
			return err
		}
	}
	if r.only == "" {
		if err := r.mix(ctx); err != nil {
			return err
		}
	}
	if err := r.stage.verify(ctx); err != nil {
		return fmt.Errorf("comparing the informers with etcd: %w", err)
	}
	r.violations()
	writes, failed := r.stage.load.Counts()
	fmt.Printf("%d writes, %d more failed; %d calls and statements checked, %d violations\n", writes, failed, r.stage.checker.Events(), r.seen)
	if r.seen > 0 {
		return fmt.Errorf("%d violations", r.seen)
	}
	return nil
}

// mix injects random faults: one from inside, one from outside, or one of each.
func (r *runner) mix(ctx context.Context) error {
	inside, outside := possible(faults(), r.servers, false), possible(faults(), r.servers, true)
	for end := time.Now().Add(r.soak / 2); time.Now().Before(end); {
		chosen := []fault{inside[r.random.IntN(len(inside))]}
		switch r.random.IntN(3) {
		case 0:
			chosen = append(chosen, outside[r.random.IntN(len(outside))])
		case 1:
			chosen = []fault{outside[r.random.IntN(len(outside))]}
		}
		if err := r.happen(ctx, chosen...); err != nil {
			return err
		}
	}
	return nil
}

// happen injects faults at the same time and waits for the repair. An error means that the test
// cannot continue.
func (r *runner) happen(ctx context.Context, chosen ...fault) error {
	ctx, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	var over time.Time
	var errs []error
	var came []fault
	for _, f := range chosen {
		random := rand.New(rand.NewPCG(r.random.Uint64(), 5))
		wait.Go(func() {
			ended, err := f.happen(ctx, r.stage, random)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, errNoEffect) && len(chosen) > 1:
				fmt.Printf("          %s: %v\n", f.name, err)
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
				came = append(came, f)
			default:
				came = append(came, f)
			}
			if ended.After(over) {
				over = ended
			}
		})
	}
	wait.Wait()
	r.stage.load.Pause()
	err := errors.Join(errs...)
	if err == nil {
		err = r.stage.equal(ctx)
	}
	repair := time.Since(over)
	// Report violations together with their fault.
	before := r.seen
	r.violations()
	r.stage.load.Resume()
	for _, f := range came {
		r.report.add(f.name, err == nil && before == r.seen, repair)
		fmt.Printf("%s  %-55s repaired after %s; %d violations\n", time.Now().UTC().Format(time.TimeOnly), f.name, seconds(repair), r.seen-before)
	}
	if err != nil {
		return err
	}
	return r.stage.load.RemoveLarge(ctx)
}

// violations prints the violations that have not been printed yet.
func (r *runner) violations() {
	words, count := r.stage.checker.Violations()
	for i := r.seen; i < len(words); i++ {
		fmt.Println("VIOLATION", words[i])
	}
	r.seen = count
}
