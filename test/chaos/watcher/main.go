// Command watcher runs informers for the chaos test. On its standard output it reports, one JSON
// document per line, everything that they and their handlers receive. It reads commands from its
// standard input, and exits at the end of the input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/chaos/record"
)

func main() {
	var cfg config
	flag.StringVar(&cfg.process, "name", "watcher", "name of this process in its events")
	flag.StringVar(&cfg.nats, "nats", "", "URLs of NATS servers, separated by commas")
	flag.StringVar(&cfg.token, "token", "", "bearer token for NATS")
	flag.StringVar(&cfg.kubeconfig, "kubeconfig", "", "kubeconfig of the apiserver for lists")
	flag.IntVar(&cfg.informers, "informers", 12, "number of informers to run")
	flag.IntVar(&cfg.connections, "connections", 1, "number of NATS connections that they share")
	flag.Parse()
	if err := run(cfg); err != nil {
		fmt.Fprintln(os.Stderr, "watcher:", err)
		os.Exit(1)
	}
}

type config struct {
	process, nats, token, kubeconfig string
	informers, connections           int
}

// followed is a view to follow.
type followed struct {
	start    func(p *program, id int, view informer.View, source informer.Source) *watched
	resource string
	view     informer.View
}

// plan returns the views that informers follow, in order.
func plan() []followed {
	pods, maps, secrets := begin[*corev1.Pod], begin[*corev1.ConfigMap], begin[*corev1.Secret]
	return []followed{
		{pods, "pods", informer.View{}},
		{pods, "pods", informer.View{Scope: "node-0"}},
		{pods, "pods", informer.View{Namespace: "chaos-0"}},
		{pods, "pods", informer.View{Scope: scheme.Unscoped}},
		{maps, "configmaps", informer.View{}},
		{secrets, "secrets", informer.View{}},
		{pods, "pods", informer.View{Scope: "node-1"}},
		{pods, "pods", informer.View{Namespace: "chaos-1", Name: "object-3"}},
		{maps, "configmaps", informer.View{Namespace: "chaos-1"}},
		{secrets, "secrets", informer.View{Namespace: "chaos-2"}},
		{pods, "pods", informer.View{Scope: "node-2"}},
		{maps, "configmaps", informer.View{Namespace: "chaos-0", Name: "object-1"}},
	}
}

// program is shared by the informers of this process.
type program struct {
	process string
	table   *scheme.Table
	logger  *slog.Logger

	mu     sync.Mutex
	out    *bufio.Writer
	broken error

	// Until these times, handlers block and statements are not consumed.
	gates        sync.Mutex
	block, stall time.Time
}

func run(cfg config) error {
	p := &program{
		process: cfg.process, table: scheme.New(), out: bufio.NewWriterSize(os.Stdout, 256<<10),
		logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	api, err := client.LoadConfig(cfg.kubeconfig)
	if err != nil {
		return err
	}
	lister, err := client.New(api, p.table)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var sources []informer.Source
	for i := range max(cfg.connections, 1) {
		conn, err := bus.Connect(ctx, bus.Config{URLs: strings.Split(cfg.nats, ","), Name: fmt.Sprintf("%s-%d", cfg.process, i),
			Token: cfg.token, Logger: p.logger})
		if err != nil {
			return err
		}
		defer conn.Close()
		sources = append(sources, fabricsource.New(fabricsource.Config{Conn: conn, Table: p.table, Client: lister, Logger: p.logger}))
	}
	var all []*watched
	for i, rows := 0, plan(); i < cfg.informers; i++ {
		row := rows[i%len(rows)]
		p.report(record.Event{Informer: i, What: record.Begin, Resource: row.resource, View: &row.view})
		w := row.start(p, i, row.view, sources[i%len(sources)])
		all = append(all, w)
		group.Go(func() error { return w.run(ctx) })
	}
	group.Go(func() error { return p.flush(ctx) })
	go func() {
		p.commands(all)
		cancel()
	}()
	return group.Wait()
}

// flush writes the reported events every 2 ms.
func (p *program) flush(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		p.mu.Lock()
		err := errors.Join(p.broken, p.out.Flush())
		p.mu.Unlock()
		if err != nil {
			return fmt.Errorf("writing the events: %w", err)
		}
	}
}

func (p *program) report(e record.Event) {
	e.Process = p.process
	data, err := json.Marshal(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		_, err = p.out.Write(append(data, '\n'))
	}
	p.broken = errors.Join(p.broken, err)
}

// commands executes the harness's commands until the input ends.
func (p *program) commands(all []*watched) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, argument, _ := strings.Cut(lines.Text(), " ")
		duration, _ := time.ParseDuration(argument)
		p.gates.Lock()
		switch command {
		case record.BlockCommand:
			p.block = time.Now().Add(duration)
		case record.StallCommand:
			p.stall = time.Now().Add(duration)
		}
		p.gates.Unlock()
		if command == record.DumpCommand {
			for _, w := range all {
				p.report(w.content())
			}
		}
	}
}

// wait waits at a gate that the harness may have closed, at most until done.
func (p *program) wait(done <-chan struct{}, gate *time.Time) {
	p.gates.Lock()
	left := time.Until(*gate)
	p.gates.Unlock()
	if left <= 0 {
		return
	}
	select {
	case <-time.After(left):
	case <-done:
	}
}
