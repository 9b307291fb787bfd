// Command outage brings the compose file up, puts it under the load of users, and injects realistic
// faults into its containers. It checks the invariants: no acknowledged write is lost, no pod runs
// twice, and at the end no informer differs from etcd. It prints for how long each fault kept users
// from writing, reading, and getting a new pod. Run it in the repository's root, as root, with
// Docker: make outage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options has the flags.
type options struct {
	name    string
	ha      bool
	times   int
	only    string
	short   bool
	nodes   int
	rate    int
	seed    uint64
	version string
	port    int
	table   string
	binary  string
	dir     string
	keep    bool
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "garboard-outage", "name of the compose project")
	flag.BoolVar(&o.ha, "ha", false, "run three etcd and three NATS servers, and the faults that need them")
	flag.IntVar(&o.times, "times", 5, "how often to inject each fault")
	flag.StringVar(&o.only, "only", "", "inject only faults whose names contain this")
	flag.BoolVar(&o.short, "short", false, "inject only the faults of the short form")
	flag.IntVar(&o.nodes, "nodes", 100, "number of simulated nodes")
	flag.IntVar(&o.rate, "rate", 40, "objects to write per second")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "random seed")
	flag.StringVar(&o.version, "version", "dev", "tag of the images")
	flag.IntVar(&o.port, "port", 16443, "port of the API on this machine; the following ports are used, too")
	flag.StringVar(&o.table, "table", "", "file for the table of results; none if empty")
	flag.StringVar(&o.binary, "garboard", "bin/garboard", "path of the program garboard")
	flag.StringVar(&o.dir, "dir", "", "folder for logs and data, which is kept; if empty, a temporary one, which is kept only after a failure")
	flag.BoolVar(&o.keep, "keep", false, "leave the containers running at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "outage:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) (err error) {
	keep := o.dir != ""
	if !keep {
		if o.dir, err = os.MkdirTemp("", "outage-"); err != nil {
			return err
		}
	} else if err = os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	defer func() {
		if err == nil && !keep {
			err = os.RemoveAll(o.dir)
		} else {
			fmt.Printf("data and logs are in %s\n", o.dir)
		}
	}()
	fmt.Printf("seed %d\n", o.seed)
	s, err := newStage(ctx, o)
	if s != nil {
		defer func() { err = errors.Join(err, s.close(err != nil)) }()
	}
	if err != nil {
		return err
	}
	var results report
	for _, f := range o.wanted() {
		for range o.times {
			if err := s.happen(ctx, f, &results); err != nil {
				return errors.Join(err, o.print(&results))
			}
			if f.once {
				break
			}
		}
	}
	return errors.Join(s.verify(ctx), o.print(&results))
}

// wanted returns the faults to inject.
func (o options) wanted() []fault {
	var some []fault
	for _, f := range faults() {
		if f.ha == o.ha || !f.ha && !o.short {
			if (f.short || !o.short) && strings.Contains(f.name, o.only) && (!f.single || !o.ha) {
				some = append(some, f)
			}
		}
	}
	return some
}

func (o options) print(results *report) error {
	table := results.markdown()
	fmt.Print("\n", table)
	if o.table == "" {
		return nil
	}
	return os.WriteFile(o.table, []byte(table), 0o600)
}
