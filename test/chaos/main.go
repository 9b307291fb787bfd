// Command chaos runs etcd, NATS, apiservers and informers as real processes, injects realistic
// faults, and compares each informer's whole history with etcd's. It prints how often each fault
// was injected, how often the plane survived it, and how long the repair took. Run it in the
// repository's root: make chaos.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/garboard/garboard/test/chaos/plane"
)

// options has the flags.
type options struct {
	soak     time.Duration
	seed     uint64
	only     string
	once     bool
	long     bool
	race     bool
	binaries string
	table    string
	dir      string
}

func main() {
	var o options
	flag.DurationVar(&o.soak, "for", 0, "how long to mix random faults, after each was injected once")
	flag.Uint64Var(&o.seed, "seed", 0, "random seed; a new one for each run if 0")
	flag.BoolVar(&o.once, "once", true, "inject each fault once before mixing them")
	flag.StringVar(&o.only, "only", "", "inject only faults whose names contain this, and do not mix them")
	flag.BoolVar(&o.long, "long", false, "make faults last longer than the protocol's longest timeouts instead of a few seconds")
	flag.BoolVar(&o.race, "race", false, "build the programs with the race detector")
	flag.StringVar(&o.binaries, "binaries", "", "folder to build the programs into; a temporary one if empty")
	flag.StringVar(&o.table, "table", "", "file for the table of results; none if empty")
	flag.StringVar(&o.dir, "dir", "", "folder for data and logs, which is kept; if empty, a temporary one, which is kept only after a failure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) (err error) {
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	fmt.Printf("seed %d\n", o.seed)
	keep := o.dir != ""
	if !keep {
		if o.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
			return err
		}
	}
	defer func() {
		if err == nil && !keep {
			err = os.RemoveAll(o.dir)
		} else {
			fmt.Printf("data and logs are in %s\n", o.dir)
		}
	}()
	if o.binaries == "" {
		o.binaries = filepath.Join(o.dir, "bin")
	}
	o.binaries, err = filepath.Abs(o.binaries)
	if err != nil {
		return err
	}
	binaries, err := plane.Build(ctx, o.binaries, o.race)
	if err != nil {
		return err
	}
	var results report
	var errs []error
	for _, servers := range []int{1, 3} {
		r := runner{options: o, report: &results, random: rand.New(rand.NewPCG(o.seed, uint64(servers))), servers: servers}
		if err := r.run(ctx, binaries); err != nil {
			errs = append(errs, fmt.Errorf("with %d NATS servers: %w", servers, err))
		}
	}
	table := results.markdown()
	fmt.Print("\n", table)
	if o.table != "" {
		errs = append(errs, os.WriteFile(o.table, []byte(table), 0o600))
	}
	return errors.Join(errs...)
}

// possible returns the faults that can be injected into a plane with the given number of NATS
// servers.
func possible(all []fault, servers int, outside bool) []fault {
	var some []fault
	for _, f := range all {
		if f.outside == outside && f.servers <= servers {
			some = append(some, f)
		}
	}
	return some
}

// wanted returns the faults to inject once with the given number of NATS servers: with several,
// only those that need them.
func (o options) wanted(servers int) []fault {
	var some []fault
	for _, f := range faults() {
		if o.once && max(f.servers, 1) == servers && strings.Contains(f.name, o.only) {
			some = append(some, f)
		}
	}
	return some
}
