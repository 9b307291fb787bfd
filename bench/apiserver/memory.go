package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/garboard/garboard/bench/measure"
)

// settle is the time between an apiserver's start and the measurement of its memory.
const settle = 20 * time.Second

// memory measures start-up and resident memory by the number of pods. For an apiserver that cannot
// be restarted, it only measures the current memory.
func (b *bench) memory(ctx context.Context) error {
	if b.target.Own == nil {
		return b.memoryNow(ctx)
	}
	names := b.target.Names()
	columns := []string{"pods", "start-up, ms", "start-up, ms of CPU of the apiserver"}
	for _, name := range names {
		columns = append(columns, name+", MB, after the pods were created", name+", MB, after its restart")
	}
	if err := b.deleteAll(ctx); err != nil {
		return err
	}
	b.report.Table("Memory and start-up (start-up: median of "+strconv.Itoa(b.repeats)+")", columns...)
	for _, n := range slices.Sorted(slices.Values(b.pods)) {
		if err := b.fill(ctx, n); err != nil {
			return err
		}
		made, err := b.resident(ctx)
		if err != nil {
			return err
		}
		var starts, cpu []float64
		for range b.repeats {
			if err := b.target.Restart(ctx); err != nil {
				return err
			}
			used, err := b.target.CPU()
			if err != nil {
				return err
			}
			starts = append(starts, float64(b.target.Own.Started)/float64(time.Millisecond))
			cpu = append(cpu, float64(used[0])/float64(time.Millisecond))
		}
		restarted, err := b.resident(ctx)
		if err != nil {
			return err
		}
		if b.profiles != "" {
			if err := b.target.Heap(ctx, filepath.Join(b.profiles, fmt.Sprintf("heap-%d.pprof", n))); err != nil {
				return err
			}
		}
		cells := []string{strconv.Itoa(n), fmt.Sprintf("%.0f", measure.Median(starts)), fmt.Sprintf("%.0f", measure.Median(cpu))}
		for i := range names {
			cells = append(cells, megabytes(made[i]), megabytes(restarted[i]))
		}
		b.report.Row(cells...)
	}
	return nil
}

func megabytes(bytes int64) string { return strconv.FormatInt(bytes/1e6, 10) }

// resident returns the memory of the processes after they have had time to settle.
func (b *bench) resident(ctx context.Context) ([]int64, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settle):
	}
	return b.target.Memory()
}

func (b *bench) memoryNow(ctx context.Context) error {
	if len(b.target.Names()) == 0 {
		return nil
	}
	resident, err := b.resident(ctx)
	if err != nil {
		return err
	}
	b.report.Table("Memory as it is", "process", "MB")
	for i, name := range b.target.Names() {
		b.report.Row(name, megabytes(resident[i]))
	}
	return nil
}
