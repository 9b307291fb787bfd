// Command apiserver measures the cost of an apiserver: CPU seconds of the apiserver and its etcd,
// for writes and reads of pods, lists, watches, start-up and memory. CPU seconds are reproducible
// even on a shared machine. It prints Markdown tables of medians.
//
// Without flags, it starts its own apiserver and etcd, each as a process. Any other apiserver,
// Garboard's or not, is measured by
//
//	go run ./bench/apiserver -kubeconfig FILE -pids apiserver=123,etcd=456
//
// where the processes must run on this machine; without -pids, only times are shown. Pods are
// created in the namespace "bench", for a scheduler that does not exist, and removed at the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings has the flags.
type settings struct {
	kubeconfig string
	pids       string
	binary     string
	parts      []string
	clients    []int
	watchers   []int
	pods       []int
	requests   int
	listed     int
	events     int
	repeats    int
	profiles   string
}

// partNames returns the names of the measurements, in order.
func partNames() []string { return []string{"requests", "lists", "watches", "memory"} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, s)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench/apiserver:", err)
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	var s settings
	set := flag.NewFlagSet("apiserver", flag.ExitOnError)
	parts := set.String("parts", strings.Join(partNames(), ","), "what to measure")
	clients := set.String("clients", "1,8,64", "numbers of concurrent clients")
	watchers := set.String("watchers", "1,10,100,1000", "numbers of watching clients")
	pods := set.String("pods", "0,10000,50000", "numbers of pods with which to measure start-up and memory; not with -kubeconfig")
	set.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the apiserver to measure; if empty, the benchmark starts one")
	set.StringVar(&s.pids, "pids", "", "its processes on this machine: NAME=PID,...")
	set.StringVar(&s.binary, "apiserver", "", "binary of the apiserver to start; built from ./cmd/apiserver if empty")
	set.IntVar(&s.requests, "requests", 5000, "requests of each verb per measurement")
	set.IntVar(&s.listed, "listed", 10000, "number of pods to list")
	set.IntVar(&s.events, "events", 1000, "watched changes per measurement")
	set.IntVar(&s.repeats, "repeats", 3, "measurements per median")
	set.StringVar(&s.profiles, "profiles", "", "folder for CPU and heap profiles of the apiserver")
	if err := set.Parse(args); err != nil {
		return s, err
	}
	s.parts = strings.Split(*parts, ",")
	for _, part := range s.parts {
		if !slices.Contains(partNames(), part) {
			return s, fmt.Errorf("there is no part %q, only %s", part, strings.Join(partNames(), ", "))
		}
	}
	for text, into := range map[*string]*[]int{clients: &s.clients, watchers: &s.watchers, pods: &s.pods} {
		for field := range strings.SplitSeq(*text, ",") {
			n, err := strconv.Atoi(field)
			if err != nil {
				return s, fmt.Errorf("parsing a list of numbers: %w", err)
			}
			*into = append(*into, n)
		}
	}
	if min(s.requests, s.events, s.repeats, s.listed, slices.Min(s.clients), slices.Min(s.watchers)) < 1 {
		return s, fmt.Errorf("numbers of requests, clients, watchers, events and repeats must be above 0")
	}
	return s, nil
}

// bench is a running benchmark.
type bench struct {
	settings
	target *target
	report *report
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "bench-apiserver")
	if err != nil {
		return fmt.Errorf("creating a folder for the servers' data: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	target, err := open(ctx, s, dir)
	if err != nil {
		return err
	}
	b := &bench{settings: s, target: target, report: newReport(os.Stdout, target.names())}
	defer func() { target.close() }()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, part := range s.parts {
		measure := map[string]func(context.Context) error{
			"requests": b.requestsPart, "lists": b.lists, "watches": b.watches, "memory": b.memory,
		}[part]
		if err := measure(ctx); err != nil {
			return fmt.Errorf("measuring %s: %w", part, err)
		}
	}
	return b.clean(ctx)
}

// profile takes a CPU profile of the apiserver while work runs, if profiles are requested.
func (b *bench) profile(ctx context.Context, name string, work func() error) error {
	if b.profiles == "" {
		return work()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taken := make(chan error, 1)
	go func() { taken <- b.target.profile(ctx, filepath.Join(b.profiles, name+".pprof"), profileTime) }()
	began := time.Now()
	if err := work(); err != nil {
		return err
	}
	if time.Since(began) < profileTime {
		fmt.Fprintf(os.Stderr, "%s took less time than its profile; use more -requests\n", name)
	}
	return <-taken
}
