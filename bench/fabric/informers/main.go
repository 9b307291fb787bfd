// Command informers runs informers of pods for the benchmark of the watch fabric, each with its own
// connections to NATS and to the apiserver. It executes commands from its standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/bench/fabric/messages"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/scheme"
)

const (
	// pollPause is the precision with which the time of reaching a revision is known.
	pollPause = time.Millisecond
	// connecting is the maximum number of connections established concurrently.
	connecting  = 16
	dialTimeout = time.Minute
)

func main() {
	nats := flag.String("nats", "", "URLs of NATS servers, separated by commas")
	token := flag.String("token", "", "bearer token for NATS")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the apiserver for lists")
	informers := flag.Int("informers", 1, "number of informers to run")
	flag.Parse()
	if err := run(*nats, *token, *kubeconfig, *informers); err != nil {
		fmt.Fprintln(os.Stderr, "informers:", err)
		os.Exit(1)
	}
}

// program is shared by all informers.
type program struct {
	all     []*watched
	metrics *prometheus.Registry
}

func run(nats, token, kubeconfig string, informers int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	table := scheme.New()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p := &program{all: make([]*watched, informers), metrics: prometheus.NewRegistry()}
	connect, connectCtx := errgroup.WithContext(ctx)
	connect.SetLimit(connecting)
	for i := range informers {
		connect.Go(func() error {
			api, err := client.LoadConfig(kubeconfig)
			if err != nil {
				return err
			}
			// Clients with equal configurations share a connection; a distinct dialer prevents
			// that.
			api.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
			lister, err := client.New(api, table)
			if err != nil {
				return err
			}
			conn, err := bus.Connect(connectCtx, bus.Config{URLs: strings.Split(nats, ","), Name: fmt.Sprintf("informer-%d", i), Token: token, Logger: logger})
			if err != nil {
				return err
			}
			source := fabricsource.New(fabricsource.Config{Conn: conn, Table: table, Client: lister, Logger: logger, Registerer: p.metrics})
			p.all[i], err = watch(table, source, logger, conn.Close)
			return err
		})
	}
	if err := connect.Wait(); err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	err := p.commands(ctx, running)
	cancel()
	return errors.Join(err, running.Wait())
}

// commands executes the commands from standard input until it ends.
func (p *program) commands(ctx context.Context, running *errgroup.Group) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(messages.Answer{}); err != nil { // reports that all are connected
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, argument, _ := strings.Cut(lines.Text(), " ")
		answer := messages.Answer{}
		switch command {
		case messages.Start:
			for _, w := range p.all {
				running.Go(func() error { return w.run(ctx) })
			}
			answer.Reached = p.wait(ctx, 1)
		case messages.Reach:
			revision, err := strconv.ParseInt(argument, 10, 64)
			if err != nil {
				return fmt.Errorf("parsing a revision: %w", err)
			}
			answer.Reached = p.wait(ctx, revision)
		case messages.Count:
			for _, w := range p.all {
				calls, late := w.take()
				answer.Calls += calls
				answer.Late = append(answer.Late, late...)
			}
			if err := p.count(&answer); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown command %q", command)
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
	}
	return nil
}

// wait waits until all informers have reached a revision, and returns when each did.
func (p *program) wait(ctx context.Context, revision int64) []int64 {
	reached := make([]int64, len(p.all))
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for left := len(p.all); ; {
		now := time.Now().UnixNano()
		for i, w := range p.all {
			if reached[i] == 0 && w.revision() >= revision {
				reached[i] = now
				left--
			}
		}
		if left == 0 {
			return reached
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// count reads the followers' metrics.
func (p *program) count(into *messages.Answer) error {
	families, err := p.metrics.Gather()
	if err != nil {
		return fmt.Errorf("reading the followers' metrics: %w", err)
	}
	for _, family := range families {
		var sum float64
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
		switch family.GetName() {
		case "garboard_follow_asks_total":
			into.Asks = int(sum)
		case "garboard_follow_whole_views_total":
			into.WholeViews = int(sum)
		case "garboard_follow_gaps_total":
			into.Gaps = int(sum)
		case "garboard_follow_fallbacks_total":
			into.Fallbacks = int(sum)
		}
	}
	return nil
}
