// Command run runs the tree's tests and reports progress: how many packages are compiled, how many
// have been tested, which ones are running, and at the end the counts and the slowest packages.
// It compiles first, so that the time of a test is its own, and starts the packages with the most
// test code first, so that no long one is left for the end.
//
//	go run ./test/run [-race] [-tags T] [-timeout D] [-count N] [packages]
//
// With -race it runs the packages of test/arch/norace.txt without the race detector, which has
// nothing to find in them. A failed test is not run again. The exit code is 1 if a test failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// config is what the command line sets.
type config struct {
	race     bool
	tags     string
	timeout  time.Duration
	packages int // packages at a time
	parallel int // parallel tests of one package
	count    int
	patterns []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var cfg config
	flag.BoolVar(&cfg.race, "race", false, "use the race detector, but for the packages of test/arch/norace.txt")
	flag.StringVar(&cfg.tags, "tags", "", "build tags, as of go test")
	flag.DurationVar(&cfg.timeout, "timeout", 30*time.Minute, "bound of one package's tests")
	flag.IntVar(&cfg.packages, "p", 4, "packages that are tested at a time; most tests wait more than they compute")
	flag.IntVar(&cfg.parallel, "parallel", 4, "parallel tests of a package that run at a time")
	flag.IntVar(&cfg.count, "count", 0, "run each test so many times, whatever the go tool's cache holds; 0 runs what it does not hold")
	flag.Parse()
	if cfg.patterns = flag.Args(); len(cfg.patterns) == 0 {
		cfg.patterns = []string{"./..."}
	}
	failed, err := run(ctx, cfg)
	if err != nil {
		fmt.Fprintf(os.Stderr, "test/run: %v\n", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// run tests all packages and reports whether any failed.
func run(ctx context.Context, cfg config) (failed bool, err error) {
	packages, err := list(ctx, cfg)
	if err != nil {
		return false, err
	}
	r := newReport(os.Stdout, time.Now, len(packages))
	for _, group := range groups(cfg, packages) {
		if err := compile(ctx, cfg, group, r); err != nil {
			return false, err
		}
		if err := test(ctx, cfg, group, r); err != nil {
			return false, err
		}
	}
	r.end()
	if ctx.Err() != nil {
		return false, errors.New("interrupted")
	}
	return r.failed(), nil
}
