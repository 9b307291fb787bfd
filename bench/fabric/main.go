// Command fabric measures the watch fabric with real processes on this machine: etcd, NATS, an
// apiserver, and informers with one connection each. It prints Markdown tables. On a shared
// machine, CPU seconds are reproducible, times less so. Costs are those of the servers: informers
// keep only the name of an object, and are measured separately.
//
//	go run ./bench/fabric -parts hops,catchup,fanout,begin,apiserver,nats
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/chaos/plane"
)

// settings has the flags.
type settings struct {
	parts     []string
	fanout    []int
	repeats   int
	writes    int
	revisions int
	changes   int
	rate      int
	readers   int // informers that start at once
	pods      int
	followers int // informers that run through a restart
	followed  int // pods that each of them keeps
	dir       string
	profiles  string
}

// part is one measurement.
type part struct {
	name    string
	measure func(*bench, context.Context) error
}

func parts() []part {
	return []part{
		{"hops", (*bench).hops}, {"catchup", (*bench).catchUp}, {"fanout", (*bench).fanOut},
		{"begin", (*bench).begin}, {"apiserver", (*bench).restartApiserver}, {"nats", (*bench).restartNATS},
	}
}

func main() { command.Main("bench/fabric", parse, run) }

func parse(args []string) (settings, error) {
	s := settings{fanout: []int{10, 100, 1000}}
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	set := flag.NewFlagSet("fabric", flag.ExitOnError)
	command.Parts(set, &s.parts, names...)
	command.Numbers(set, &s.fanout, "fanout", "numbers of informers that follow the same changes")
	command.Repeats(set, &s.repeats)
	set.IntVar(&s.writes, "writes", 500, "hops: writes per measurement")
	set.IntVar(&s.revisions, "revisions", 100_000, "catchup: number of prepared revisions")
	set.IntVar(&s.changes, "changes", 500, "fanout: changes per measurement")
	set.IntVar(&s.rate, "rate", 25, "fanout, apiserver, nats: changes written per second")
	set.IntVar(&s.readers, "readers", 100, "begin: number of informers that start at once")
	set.IntVar(&s.pods, "pods", 10_000, "begin: number of pods that each of them reads")
	set.IntVar(&s.followers, "followers", 500, "apiserver, nats: number of informers that run through the restart")
	set.IntVar(&s.followed, "followed", 2000, "apiserver, nats: number of pods that each of them keeps")
	set.StringVar(&s.dir, "dir", "", "folder for programs, data and logs, which is kept; a temporary one if empty")
	set.StringVar(&s.profiles, "profiles", "", "hops: folder for a CPU profile of the apiserver; none if empty")
	if err := set.Parse(args); err != nil {
		return s, err
	}
	if min(slices.Min(s.fanout), s.repeats, s.writes, s.revisions, s.changes, s.rate, s.readers, s.pods, s.followers, s.followed) < 1 {
		return s, fmt.Errorf("all numbers must be above 0")
	}
	return s, nil
}

// bench is a running benchmark.
type bench struct {
	settings
	binaries  plane.Binaries
	informers string
	relay     string
	table     *scheme.Table
	report    measure.Report
	planes    int
}

func run(ctx context.Context, s settings) (err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "bench-fabric"); err != nil {
			return fmt.Errorf("creating a folder for the servers' data: %w", err)
		}
		defer func() { _ = os.RemoveAll(s.dir) }()
	}
	programs, err := filepath.Abs(filepath.Join(s.dir, "bin"))
	if err != nil {
		return err
	}
	b := &bench{
		settings: s, table: scheme.New(), report: measure.Report{To: os.Stdout},
		informers: filepath.Join(programs, "informers"), relay: filepath.Join(programs, "relay"),
	}
	if b.binaries, err = plane.Build(ctx, programs, false, "./bench/fabric/informers", "./bench/fabric/relay"); err != nil {
		return err
	}
	for _, p := range parts() {
		if !slices.Contains(s.parts, p.name) {
			continue
		}
		if err := p.measure(b, ctx); err != nil {
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
	}
	return nil
}
