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
//
// With -kubernetes FILE, a kube-apiserver runs beside its own, on the same etcd below another prefix, with the
// same certificates. Both get the requests of the parts custom, definitions and policies in turn.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/plane"
	"github.com/garboard/garboard/bench/target"
)

// settings has the flags.
type settings struct {
	kubeconfig  string
	pids        string
	binary      string
	kubernetes  string
	parts       []string
	clients     []int
	watchers    []int
	pods        []int
	definitions []int
	requests    int
	listed      int
	events      int
	repeats     int
	profiles    string
}

func main() { command.Main("bench/apiserver", parse, run) }

func parse(args []string) (settings, error) {
	s := settings{clients: []int{1, 8, 64}, watchers: []int{1, 10, 100, 1000}, pods: []int{0, 10_000, 50_000}, definitions: []int{100, 1000}}
	set := flag.NewFlagSet("apiserver", flag.ExitOnError)
	command.Parts(set, &s.parts, "requests", "lists", "watches", "memory", "custom", "definitions", "policies", "hostile")
	command.Numbers(set, &s.clients, "clients", "numbers of concurrent clients")
	command.Numbers(set, &s.watchers, "watchers", "numbers of watching clients")
	command.Numbers(set, &s.pods, "pods", "numbers of pods with which to measure start-up and memory; not with -kubeconfig")
	set.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the apiserver to measure; if empty, the benchmark starts one")
	set.StringVar(&s.pids, "pids", "", "its processes on this machine: NAME=PID,...")
	set.StringVar(&s.binary, "apiserver", "", "binary of the apiserver to start; built from ./cmd/apiserver if empty")
	set.StringVar(&s.kubernetes, "kubernetes", "", "binary of a kube-apiserver, with which custom, definitions and policies compare")
	command.Numbers(set, &s.definitions, "definitions", "numbers of custom resource definitions: created at once, and present in all")
	set.IntVar(&s.requests, "requests", 5000, "requests of each verb per measurement")
	set.IntVar(&s.listed, "listed", 10000, "number of pods to list")
	set.IntVar(&s.events, "events", 1000, "watched changes per measurement")
	command.Repeats(set, &s.repeats)
	set.StringVar(&s.profiles, "profiles", "", "folder for CPU and heap profiles of the apiserver")
	if err := set.Parse(args); err != nil {
		return s, err
	}
	if min(s.requests, s.events, s.repeats, s.listed, slices.Min(s.clients), slices.Min(s.watchers)) < 1 {
		return s, fmt.Errorf("numbers of requests, clients, watchers, events and repeats must be above 0")
	}
	if s.listed < s.events && slices.Contains(s.parts, "custom") {
		return s, fmt.Errorf("-listed must be at least -events: the listed custom resources are the watched ones")
	}
	return s, nil
}

// bench is a running benchmark.
type bench struct {
	settings
	target *target.Target
	report *report
	plane  *plane.Plane // nil if the apiserver already existed
	sides  []*side
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "bench-apiserver")
	if err != nil {
		return fmt.Errorf("creating a folder for the servers' data: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{settings: s}
	defer func() { b.close() }()
	if err := b.open(ctx, dir); err != nil {
		return err
	}
	b.report = newReport(os.Stdout, b.target.Names())
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, part := range s.parts {
		measure := map[string]func(context.Context) error{
			"requests": b.requestsPart, "lists": b.lists, "watches": b.watches, "memory": b.memory,
			"custom": b.custom, "definitions": b.definitionsPart, "policies": b.policies, "hostile": b.hostile,
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
	go func() { taken <- b.target.Profile(ctx, filepath.Join(b.profiles, name+".pprof"), target.ProfileTime) }()
	began := time.Now()
	if err := work(); err != nil {
		return err
	}
	if time.Since(began) < target.ProfileTime {
		fmt.Fprintf(os.Stderr, "%s took less time than its profile; use more -requests\n", name)
	}
	return <-taken
}
