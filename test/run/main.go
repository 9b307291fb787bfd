// Command run runs the tests of the tree and reports progress: how many packages are compiled, how
// many have been tested, which are running, and finally the counts and the slowest packages. It
// compiles first, so that a test's time does not include compilation. It starts the packages with
// the most test code first, so that no long one is left for the end.
//
//	go run ./test/run [-race] [-tags T] [-timeout D] [-count N] [packages]
//
// With -race, it runs the packages of test/arch/norace.txt without the race detector, which cannot
// find anything in them. Failed tests are not rerun. The exit code is 1 if a test failed.
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

// config is the configuration from the command line.
type config struct {
	race     bool
	tags     string
	timeout  time.Duration
	packages int // packages tested at a time
	parallel int // parallel tests per package
	count    int
	patterns []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var cfg config
	flag.BoolVar(&cfg.race, "race", false, "use the race detector, except for the packages of test/arch/norace.txt")
	flag.StringVar(&cfg.tags, "tags", "", "build tags, as for go test")
	flag.DurationVar(&cfg.timeout, "timeout", 30*time.Minute, "timeout for the tests of one package")
	flag.IntVar(&cfg.packages, "p", 3, "packages tested at a time; more make each test slower, and all of them no faster, on two processors")
	flag.IntVar(&cfg.parallel, "parallel", 0, "maximum number of parallel tests per package; 0 means 4, and 2 with -race")
	flag.IntVar(&cfg.count, "count", 0, "run each test this many times and ignore the go tool's cache; 0 runs tests that are not cached, once")
	flag.Parse()
	if cfg.patterns = flag.Args(); len(cfg.patterns) == 0 {
		cfg.patterns = []string{"./..."}
	}
	if cfg.parallel == 0 {
		// The longest packages mostly wait. With the race detector their tests need the processors, too.
		cfg.parallel = 4
		if cfg.race {
			cfg.parallel = 2
		}
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
