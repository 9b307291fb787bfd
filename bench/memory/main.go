// Command memory measures `garboard up` when it does nothing: resident memory and what it consists
// of, start-up, and CPU time. It does so twice: after the start, and after kubectl has created,
// applied and read objects, and has read every OpenAPI document. Each run has its own data folder,
// simulated containers and one node. It prints Markdown tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
)

// settings has the flags.
type settings struct {
	binary   string
	profiles string
	repeats  int
	idle     time.Duration
}

func main() { command.Main("bench/memory", parse, run) }

func parse(args []string) (settings, error) {
	var s settings
	set := flag.NewFlagSet("memory", flag.ExitOnError)
	set.StringVar(&s.binary, "garboard", "", "binary to measure; built from ./cmd/garboard if empty")
	set.StringVar(&s.profiles, "profiles", "", "folder for a heap profile and a goroutine profile of each run")
	command.Repeats(set, &s.repeats)
	set.DurationVar(&s.idle, "idle", time.Minute, "time between the end of the start and the measurement")
	if err := set.Parse(args); err != nil {
		return s, err
	}
	if s.repeats < 1 || s.idle <= 0 {
		return s, errors.New("-repeats and -idle must be above 0")
	}
	return s, nil
}

func run(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "bench-memory")
	if err != nil {
		return fmt.Errorf("creating a folder for the data: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if s.binary == "" {
		s.binary = filepath.Join(dir, "garboard")
		build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", s.binary, "./cmd/garboard")
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr // as `make build` does
		if err := build.Run(); err != nil {
			return fmt.Errorf("building garboard, which must run in the repository's root: %w", err)
		}
	}
	var fresh, used []sample
	for i := range s.repeats {
		one, other, err := s.measure(ctx, filepath.Join(dir, strconv.Itoa(i)), i)
		if err != nil {
			return err
		}
		fresh, used = append(fresh, one), append(used, other)
	}
	show(fmt.Sprintf("`garboard up`, %v after it is up", s.idle), fresh)
	show(fmt.Sprintf("`garboard up`, %v after its use", s.idle), used)
	return nil
}

// measure starts a plane, measures it before and after its use, and stops it.
func (s settings) measure(ctx context.Context, dir string, number int) (fresh, used sample, err error) {
	p, err := startPlane(ctx, s.binary, dir)
	if err != nil {
		return fresh, used, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if fresh, err = s.rest(ctx, p, fmt.Sprintf("fresh-%d", number)); err != nil {
		return fresh, used, err
	}
	if err := p.use(ctx); err != nil {
		return fresh, used, err
	}
	used, err = s.rest(ctx, p, fmt.Sprintf("used-%d", number))
	return fresh, used, err
}

// rest lets a plane idle, measures it, and saves its profiles if they are wanted.
func (s settings) rest(ctx context.Context, p *plane, name string) (sample, error) {
	before, err := p.process.CPU()
	if err != nil {
		return sample{}, err
	}
	select {
	case <-ctx.Done():
		return sample{}, ctx.Err()
	case <-time.After(s.idle):
	}
	one, err := p.sample(ctx, before)
	if err != nil || s.profiles == "" {
		return one, err
	}
	for _, profile := range []string{"heap", "goroutine"} {
		data, err := p.get(ctx, "/debug/pprof/"+profile)
		if err != nil {
			return one, err
		}
		if err := os.WriteFile(filepath.Join(s.profiles, profile+"-"+name+".pprof"), data, 0o600); err != nil {
			return one, fmt.Errorf("saving a profile: %w", err)
		}
	}
	return one, nil
}

// show prints a column for each run, and the medians.
func show(title string, samples []sample) {
	columns := []string{""}
	for i := range samples {
		columns = append(columns, "run "+strconv.Itoa(i+1))
	}
	report := measure.Report{To: os.Stdout}
	report.Table(title, append(columns, "median")...)
	for _, row := range rows() {
		var cells []string
		var values []float64
		for _, one := range samples {
			values = append(values, row.value(one))
			cells = append(cells, fmt.Sprintf("%.4g", row.value(one)))
		}
		report.Row(append(append([]string{row.name}, cells...), fmt.Sprintf("**%.4g**", measure.Median(values)))...)
	}
}
