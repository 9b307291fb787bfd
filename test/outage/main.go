// Command outage brings the compose file up, has its users at work and everything happen to its
// containers that happens to real ones, and checks what must never be: that an acknowledged write
// is lost, that a pod is there twice, that an informer differs from etcd at the end. It prints for
// how long each fault kept users from writing, reading, and getting a new pod. It is run in the
// repository's folder, as root, with Docker: make outage.
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

// options are the flags.
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
	flag.BoolVar(&o.ha, "ha", false, "three etcd and three NATS servers, and the faults that need them")
	flag.IntVar(&o.times, "times", 5, "how often each fault happens")
	flag.StringVar(&o.only, "only", "", "only the faults with this in their names")
	flag.BoolVar(&o.short, "short", false, "only the faults of the short form")
	flag.IntVar(&o.nodes, "nodes", 100, "how many simulated nodes there are")
	flag.IntVar(&o.rate, "rate", 40, "how many objects are written a second")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "what decides chance")
	flag.StringVar(&o.version, "version", "dev", "tag of the images")
	flag.IntVar(&o.port, "port", 16443, "port of the API on this machine; the ones after it are taken too")
	flag.StringVar(&o.table, "table", "", "file for the table of results; none if empty")
	flag.StringVar(&o.binary, "garboard", "bin/garboard", "the program garboard")
	flag.StringVar(&o.dir, "dir", "", "folder for logs and data, which are kept; a temporary one, kept after a failure, if empty")
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

// wanted are the faults that are to happen.
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
