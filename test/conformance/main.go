// Command conformance runs Kubernetes' own conformance specs against a plane, each in a process of
// its own, several side by side, and [Serial] ones alone at the end. It prints what passed, what
// failed and why.
//
//	go run ./test/conformance [-kubeconfig FILE] [-class A,B | -focus REGEXP] [flags]
//
// It builds the suite on the first run, from the module in the folder suite, and keeps it in the
// user's cache by version. Without -kubeconfig, it starts a plane with one simulated node, and stops
// it at the end. Each result is appended to a file. A spec with a result from the same plane is not
// run again, so a run that was interrupted goes on where it stopped. The exit code is 1 if a spec
// did not pass.
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

// settings has the flags.
type settings struct {
	kubeconfig string
	garboard   string
	upFlags    string
	containers bool
	nodes      int
	agent      string
	classes    string
	focus      string
	dir        string
	cache      string
	parallel   int
	limit      time.Duration
	fresh      bool
	failed     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	passed := false
	if err == nil {
		passed, err = run(ctx, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if !passed {
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	var s settings
	set := flag.NewFlagSet("conformance", flag.ContinueOnError)
	set.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the plane to judge; if empty, one is started")
	set.StringVar(&s.garboard, "garboard", "bin/garboard", "program that starts the plane when there is no -kubeconfig")
	set.StringVar(&s.upFlags, "up-flags", "", "further flags of the plane that is started, separated by spaces")
	set.BoolVar(&s.containers, "containers", false, "the plane that is started runs containers, with the images of Kubernetes' tests; needs root and containerd")
	set.IntVar(&s.nodes, "nodes", 2, "number of nodes that run containers, each in a network namespace of its own")
	set.StringVar(&s.agent, "nodeagent", "bin/nodeagent", "program of their node agents")
	set.StringVar(&s.classes, "class", "", "classes of specs, separated by commas; all if empty")
	set.StringVar(&s.focus, "focus", "", "regular expression: run only specs whose name matches")
	set.StringVar(&s.dir, "dir", "bin/conformance", "folder for the results and the output of failed specs")
	set.StringVar(&s.cache, "cache", "", "folder that keeps the suite; if empty, garboard/conformance in the user's cache")
	set.IntVar(&s.parallel, "p", 4, "number of specs that run side by side")
	set.DurationVar(&s.limit, "limit", 15*time.Minute, "time limit of one spec")
	set.BoolVar(&s.fresh, "fresh", false, "run all chosen specs, also those that have a result")
	set.BoolVar(&s.failed, "failed", false, "run specs again whose result is not \"passed\"")
	if err := set.Parse(args); err != nil {
		return s, err
	}
	if set.NArg() > 0 {
		return s, fmt.Errorf("unexpected arguments: %q", set.Args())
	}
	if s.nodes < 1 {
		return s, errors.New("-nodes must be above 0")
	}
	if s.parallel < 1 || s.limit <= 0 {
		return s, errors.New("-p and -limit must be above 0")
	}
	if s.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return s, fmt.Errorf("finding the user's cache for the suite: %w; give a folder with -cache", err)
		}
		s.cache = filepath.Join(dir, "garboard", "conformance")
	}
	return s, nil
}

// run runs the chosen specs that have no result yet, and reports whether all chosen ones passed.
func run(ctx context.Context, s settings) (passed bool, err error) {
	all, err := readClasses(classesFile)
	if err != nil {
		return false, err
	}
	chosen, err := choose(all, s.classes, s.focus)
	if err != nil {
		return false, err
	}
	built, err := build(ctx, s.cache)
	if err != nil {
		return false, err
	}
	target, err := identify(s)
	if err != nil {
		return false, err
	}
	results, err := openResults(filepath.Join(s.dir, "results.jsonl"), target)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, results.close()) }()
	todo := results.open(chosen, s.fresh, s.failed)
	r := newReport(os.Stdout, time.Now, len(todo))
	fmt.Printf("%d specs chosen, %d to run against %s\n", len(chosen), len(todo), target)
	if len(todo) > 0 {
		if err := judge(ctx, s, built, results, r, todo); err != nil {
			return false, err
		}
	}
	return r.end(chosen, results), nil
}

// judge runs specs against the given plane, or against a new one.
func judge(ctx context.Context, s settings, built suite, results *results, r *report, todo []spec) error {
	judged := &runner{
		suite: built, kubeconfig: s.kubeconfig, limit: s.limit, logs: filepath.Join(s.dir, "logs"), results: results, report: r,
	}
	if s.kubeconfig == "" {
		flags := strings.Fields(s.upFlags)
		var agents *containers
		if s.containers {
			c, err := startContainers(ctx, s.cache, built.version, s.nodes)
			if err != nil {
				return err
			}
			defer c.stop()
			host := c.nodes.Host.String()
			flags = append([]string{"--nodes", "0", "--listen", host + ":6443", "--nats-listen", host + ":4222"}, flags...)
			agents = c
		}
		p, err := startPlane(ctx, s.garboard, flags, filepath.Join(s.dir, "plane.log"))
		if err != nil {
			return err
		}
		defer p.stop()
		if agents != nil {
			if err := agents.join(ctx, s, p); err != nil {
				return err
			}
			defer agents.leave()
		}
		judged.kubeconfig = p.kubeconfig
		var cancel context.CancelFunc
		ctx, cancel = p.watch(ctx)
		defer cancel()
	}
	return judged.all(ctx, todo, s.parallel)
}
