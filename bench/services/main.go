// Command services measures what leads a node's traffic to Services: the node agent, beside a kube-proxy in
// nftables mode. Both run in turn in the same network namespace, against the same apiserver, with Services of ten
// endpoints each. It measures the time and CPU from the start until all Services work, those of a change of one
// endpoint, the duration of a connection through the first and the last Service, and memory. CPU is that of the
// process, with the kernel's work for it, and of the programs that it runs (nft). It prints Markdown tables of
// medians, with the smallest and largest values. It needs root, containerd, ip and nft.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/node"
)

// settings has the flags.
type settings struct {
	kubeProxy string
	services  []int
	changes   int
	pause     time.Duration
	idle      time.Duration
	programs  time.Duration
	repeats   int
}

func main() { command.Main("bench/services", parse, run) }

func parse(args []string) (settings, error) {
	s := settings{services: []int{1000}}
	set := flag.NewFlagSet("services", flag.ExitOnError)
	set.StringVar(&s.kubeProxy, "kube-proxy", "", "binary of kube-proxy; if empty, only the node agent is measured")
	command.Numbers(set, &s.services, "services", "numbers of Services, in rising order")
	set.IntVar(&s.changes, "changes", 10, "changes of an endpoint per measurement")
	set.DurationVar(&s.pause, "pause", 1200*time.Millisecond, "time from one change to the next; kube-proxy makes one a second")
	set.DurationVar(&s.idle, "idle", 70*time.Second, "rest before memory is measured; the agent looks for garbage twice a minute")
	set.DurationVar(&s.programs, "patience", 10*time.Minute, "time that a program may take from its start until all Services work")
	command.Repeats(set, &s.repeats)
	if err := set.Parse(args); err != nil {
		return s, err
	}
	if min(s.repeats, s.changes, slices.Min(s.services)) < 1 || min(s.pause, s.idle, s.programs) <= 0 {
		return s, errors.New("numbers and durations must be above 0")
	}
	if !slices.IsSorted(s.services) {
		return s, errors.New("-services must rise")
	}
	return s, nil
}

// bench is a running benchmark.
type bench struct {
	settings
	node   *node.Node
	report measure.Report
	sides  []side
	round  int // of all changes
}

func run(ctx context.Context, s settings) error {
	if s.kubeProxy != "" {
		path, err := filepath.Abs(s.kubeProxy)
		if err != nil {
			return fmt.Errorf("finding kube-proxy: %w", err)
		}
		s.kubeProxy = path
	}
	return node.Enter(ctx, func(ctx context.Context, dir string) (err error) {
		n, err := node.Start(ctx, dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.Close()) }()
		answering, err := answer(ctx)
		if err != nil {
			return err
		}
		defer answering.end()
		b := &bench{settings: s, node: n, report: measure.Report{To: os.Stdout}}
		b.sides = b.both()
		return b.run(ctx)
	})
}

// run measures with each number of Services in turn.
func (b *bench) run(ctx context.Context) error {
	if err := b.restOf(ctx, "without Services, proxy and DNS server", "--service-proxy=false", "--dns=false"); err != nil {
		return err
	}
	present := 0
	for _, n := range b.services {
		began := time.Now()
		if err := b.node.Fill(ctx, present, n); err != nil {
			return err
		}
		present = n
		b.report.Printf("\n%d Services are in the API (%v).\n", n, time.Since(began).Round(time.Second))
		if err := b.restOf(ctx, "with proxy and DNS server", "--service-proxy", "--dns"); err != nil {
			return err
		}
		results := map[string][]result{}
		for i := range b.repeats {
			sides := slices.Clone(b.sides)
			if i%2 == 1 {
				slices.Reverse(sides)
			}
			for _, one := range sides {
				r, err := b.measure(ctx, one, n)
				if err != nil {
					return fmt.Errorf("%s with %d Services: %w", one.name, n, err)
				}
				b.report.Printf("%s, turn %d: all Services work after %.1f s and %.1f s of CPU; %s MB at rest, at most %s MB.\n",
					one.name, i+1, r.programmed.Seconds(), r.programmedCPU.Seconds(), megabytes(r.resident), megabytes(r.peak))
				results[one.name] = append(results[one.name], r)
			}
		}
		b.show(n, results)
	}
	return nil
}

// restOf measures the memory of an idle node agent with flags.
func (b *bench) restOf(ctx context.Context, what string, flags ...string) (err error) {
	agent, err := b.node.Agent("agent-idle", flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Stop(), removeRules(ctx)) }()
	if err := agent.Wait(ctx, patience, func() bool { return healthy(ctx, node.AgentHealth) }); err != nil {
		return err
	}
	resident, anonymous, err := b.rest(ctx, agent)
	if err != nil {
		return err
	}
	b.report.Printf("The node agent %s, at rest: %s MB resident, of which %s MB are anonymous.\n", what, megabytes(resident), megabytes(anonymous))
	return nil
}

// rest lets a program idle and returns its memory.
func (b *bench) rest(ctx context.Context, p *node.Program) (resident, anonymous int64, err error) {
	if err := command.Pause(ctx, b.idle); err != nil {
		return 0, 0, err
	}
	if resident, err = p.Resident(); err != nil {
		return 0, 0, err
	}
	anonymous, err = p.Anonymous()
	return resident, anonymous, err
}
