package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/plane"
	"github.com/garboard/garboard/bench/target"
)

// side is one of the apiservers that are compared.
type side struct {
	*target.Target
	name string
}

// open connects to the apiserver that the flags name, or starts one, and a kube-apiserver if its binary is
// given.
func (b *bench) open(ctx context.Context, dir string) (err error) {
	if b.kubeconfig != "" {
		b.target, err = target.Open(b.kubeconfig, b.pids)
		b.sides = []*side{{b.target, "apiserver"}}
		return err
	}
	if b.plane, err = plane.New(ctx, b.binary, dir); err != nil {
		return err
	}
	own, err := b.plane.Server(ctx, "apiserver")
	if err != nil {
		return err
	}
	if b.target, err = target.Start(ctx, own); err != nil {
		return err
	}
	b.sides = []*side{{b.target, "Garboard"}}
	if b.kubernetes == "" {
		return nil
	}
	if own, err = b.plane.Kubernetes(ctx, b.kubernetes); err != nil {
		return err
	}
	other, err := target.Start(ctx, own)
	if err != nil {
		return fmt.Errorf("starting %s: %w", b.kubernetes, err)
	}
	b.sides = append(b.sides, &side{other, "kube-apiserver"})
	return nil
}

func (b *bench) close() {
	for _, s := range b.sides {
		if s.Target != nil {
			s.Close()
		}
	}
	if b.plane != nil {
		b.plane.Close()
	}
}

// once measures work on all sides. The order changes from turn to turn, so that no side always follows the
// other.
func (b *bench) once(turn int, work func(s *side) error) ([]target.Cost, error) {
	costs := make([]target.Cost, len(b.sides))
	for i := range b.sides {
		n := (i + turn) % len(b.sides)
		c, err := b.sides[n].Measure(func() error { return work(b.sides[n]) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.sides[n].name, err)
		}
		costs[n] = c
	}
	return costs, nil
}

// turns measures work on all sides in turn, repeats times, and returns the costs of each side.
func (b *bench) turns(work func(s *side) error) ([][]target.Cost, error) {
	var costs [][]target.Cost
	for turn := range b.repeats {
		one, err := b.once(turn, work)
		if err != nil {
			return nil, err
		}
		costs = appendEach(costs, one)
	}
	return costs, nil
}

// appendEach appends one measurement of each side.
func appendEach(all [][]target.Cost, one []target.Cost) [][]target.Cost {
	if all == nil {
		all = make([][]target.Cost, len(one))
	}
	for i, c := range one {
		all[i] = append(all[i], c)
	}
	return all
}

// profiled is turns with a CPU profile of each side, if profiles are wanted.
func (b *bench) profiled(ctx context.Context, name string, work func(s *side) error) ([][]target.Cost, error) {
	costs, err := b.turns(work)
	if err != nil || b.profiles == "" {
		return costs, err
	}
	return costs, b.eachSide(func(s *side) error {
		began := time.Now()
		return b.during(ctx, s, name, func() (err error) {
			for err == nil && time.Since(began) < target.ProfileTime {
				err = work(s)
			}
			return err
		})
	})
}

// during takes a CPU profile of a side's apiserver while work runs, if profiles are wanted.
func (b *bench) during(ctx context.Context, s *side, name string, work func() error) error {
	if b.profiles == "" {
		return work()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taken := make(chan error, 1)
	go func() {
		taken <- s.Profile(ctx, filepath.Join(b.profiles, name+" "+s.name+".pprof"), target.ProfileTime)
	}()
	if err := work(); err != nil {
		return err
	}
	return <-taken
}

// compareTable starts a table that compares the sides.
func (b *bench) compareTable(title, what, unit string) {
	columns := []string{what}
	for _, s := range b.sides {
		for _, name := range b.target.Names() {
			columns = append(columns, fmt.Sprintf("%s: %s, %s", s.name, name, unit))
		}
	}
	if len(b.sides) > 1 && len(b.target.Names()) > 0 {
		columns = append(columns, "**apiservers, ratio**")
	}
	b.report.Table(title+fmt.Sprintf(" (medians of %d, with quartiles)", b.repeats), columns...)
}

// compareRow prints the CPU time of one of n operations on each side, and how the first side's apiserver
// compares with the second's, turn by turn.
func (b *bench) compareRow(what string, costs [][]target.Cost, n int, unit time.Duration) {
	cells := []string{what}
	for _, of := range costs {
		for p := range b.target.Names() {
			var values []float64
			for _, c := range of {
				values = append(values, float64(c.CPU[p])/float64(n)/float64(unit))
			}
			cells = append(cells, spreadCell(values))
		}
	}
	if len(costs) > 1 && len(b.target.Names()) > 0 {
		var ratios []float64
		for turn := range costs[0] {
			ratios = append(ratios, float64(costs[0][turn].CPU[0])/float64(max(costs[1][turn].CPU[0], 1)))
		}
		cells = append(cells, "**"+spreadCell(ratios)+"**")
	}
	b.report.Row(cells...)
}

// spreadCell returns the median of values, with quartiles if there are enough.
func spreadCell(values []float64) string {
	median := fmt.Sprintf("%.3g", measure.Median(values))
	if len(values) < 3 {
		return median
	}
	return fmt.Sprintf("%s (%.3g–%.3g)", median, measure.Share(values, 0.25), measure.Share(values, 0.75))
}

// eachSide does the same on every side, one after the other.
func (b *bench) eachSide(do func(s *side) error) error {
	for _, s := range slices.Clone(b.sides) {
		if err := do(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}
