package main

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/sample"
	"github.com/garboard/garboard/bench/target"
)

const (
	togetherType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	// discoveryPause is the time between two looks at a discovery that is not right yet.
	discoveryPause = 20 * time.Millisecond
	// calm is the time that an apiserver has to do what definitions make it do.
	calm = 10 * time.Second
)

// definitionsPart measures definitions of custom resources in number. The kinds have no objects.
func (b *bench) definitionsPart(ctx context.Context) error {
	if b.plane == nil {
		return fmt.Errorf("it must start the apiservers, so -kubeconfig is not possible")
	}
	counts := slices.Sorted(slices.Values(b.definitions))
	b.report.Table(fmt.Sprintf("%d definitions created at once by %d clients, a single run", counts[0], loaders),
		"apiservers", "created, s", "then until discovery is right everywhere, s", "OpenAPI v3 lists all, s", "ms of CPU per definition")
	without := map[*side]int64{}
	err := b.eachSide(func(s *side) error {
		if err := s.Restart(ctx); err != nil {
			return err
		}
		resident, err := b.residentOf(ctx, s)
		without[s] = resident
		return err
	})
	if err != nil {
		return err
	}
	if err := b.eachSide(func(s *side) error { return b.defineAtOnce(ctx, s, counts[0]) }); err != nil {
		return err
	}
	b.report.Table(fmt.Sprintf("Definitions in number (start-up: medians of %d)", b.repeats), "definitions", "apiserver", "creation of the last, ms of CPU each",
		"resident then, MB", "start-up, s", "start-up, s of CPU", "resident after it, MB", "KB per definition")
	for i, n := range counts {
		first := 0
		if i > 0 {
			first = counts[i-1]
		}
		if err := b.eachSide(func(s *side) error { return b.inNumber(ctx, s, first, n, without[s]) }); err != nil {
			return err
		}
	}
	return b.discoveryOfAll(ctx, counts[len(counts)-1])
}

// defineAtOnce creates definitions, and waits until all apiservers of a side tell of them. Garboard has two.
func (b *bench) defineAtOnce(ctx context.Context, s *side, n int) error {
	all, number := []*target.Target{s.Target}, "1"
	if s == b.sides[0] {
		second, err := b.plane.Server(ctx, "second")
		if err != nil {
			return err
		}
		other, err := target.Start(ctx, second)
		if err != nil {
			return err
		}
		defer other.Close()
		all, number = append(all, other), "2"
	}
	clients, err := s.Connect(ctx, loaders, json)
	if err != nil {
		return err
	}
	var created, right, described time.Duration
	c, err := s.Measure(func() error {
		began := time.Now()
		if err := define(ctx, clients, 0, n); err != nil {
			return err
		}
		created = time.Since(began)
		if err := everywhere(ctx, all, func(client *rest.RESTClient) (bool, error) { return discovered(ctx, client, n) }); err != nil {
			return err
		}
		right = time.Since(began)
		err := everywhere(ctx, all, func(client *rest.RESTClient) (bool, error) { return inOpenAPI(ctx, client, n) })
		described = time.Since(began)
		return err
	})
	if err != nil {
		return err
	}
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
	b.report.Row(number+" "+s.name, seconds(created), "**"+seconds(right-created)+"**", seconds(described-created),
		fmt.Sprintf("%.3g", float64(c.CPU[0])/float64(n)/float64(time.Millisecond)))
	return nil
}

// define creates the definitions from one number up to another.
func define(ctx context.Context, clients []*rest.RESTClient, from, to int) error {
	return spread(ctx, clients, to-from, func(ctx context.Context, client *rest.RESTClient, i int) error {
		return post(ctx, client, definitionsPath, sample.Widgets(from+i))
	})
}

// everywhere waits until right holds on all apiservers.
func everywhere(ctx context.Context, all []*target.Target, right func(*rest.RESTClient) (bool, error)) error {
	errs := make([]error, len(all))
	var ended sync.WaitGroup
	for i, one := range all {
		ended.Go(func() {
			client, err := one.Client(json)
			if err == nil {
				err = until(ctx, discoveryPause, func() (bool, error) { return right(client) })
			}
			errs[i] = err
		})
	}
	ended.Wait()
	return errors.Join(errs...)
}

// discovered reports whether both forms of discovery tell of the first n definitions.
func discovered(ctx context.Context, client *rest.RESTClient, n int) (bool, error) {
	data, err := client.Get().AbsPath("/apis").SetHeader("Accept", togetherType).Do(ctx).Raw()
	if err != nil {
		return false, err
	}
	text := string(data)
	for i := range n {
		if !strings.Contains(text, `"Widget`+strconv.Itoa(i)+`"`) {
			return false, nil
		}
	}
	for i := 0; i < n; i += 10 { // A group has ten.
		data, err := client.Get().AbsPath("/apis/" + sample.WidgetGroup(i) + "/v1").Do(ctx).Raw()
		if err != nil {
			return false, ignore(err, apierrors.IsNotFound)
		}
		for j := i; j < min(i+10, n); j++ {
			if !strings.Contains(string(data), `"Widget`+strconv.Itoa(j)+`"`) {
				return false, nil
			}
		}
	}
	return true, nil
}

// inOpenAPI reports whether the index of OpenAPI v3 names the groups of the first n definitions.
func inOpenAPI(ctx context.Context, client *rest.RESTClient, n int) (bool, error) {
	data, err := client.Get().AbsPath("/openapi/v3").Do(ctx).Raw()
	if err != nil {
		return false, err
	}
	var index struct {
		Paths map[string]struct{} `json:"paths"`
	}
	if err := stdjson.Unmarshal(data, &index); err != nil {
		return false, fmt.Errorf("reading the index of OpenAPI v3: %w", err)
	}
	for i := 0; i < n; i += 10 {
		if _, ok := index.Paths["apis/"+sample.WidgetGroup(i)+"/v1"]; !ok {
			return false, nil
		}
	}
	return true, nil
}

// inNumber creates definitions up to n, and measures what an apiserver with them needs.
func (b *bench) inNumber(ctx context.Context, s *side, first, n int, without int64) error {
	each := "–"
	if first > 0 {
		clients, err := s.Connect(ctx, loaders, json)
		if err != nil {
			return err
		}
		var c target.Cost
		err = b.during(ctx, s, "define", func() (err error) {
			c, err = s.Measure(func() error {
				if err := define(ctx, clients, first, n); err != nil {
					return err
				}
				return everywhere(ctx, []*target.Target{s.Target}, func(client *rest.RESTClient) (bool, error) { return discovered(ctx, client, n) })
			})
			return err
		})
		if err != nil {
			return err
		}
		each = fmt.Sprintf("%.3g", float64(c.CPU[0])/float64(n-first)/float64(time.Millisecond))
	}
	made, err := b.residentOf(ctx, s)
	if err != nil {
		return err
	}
	var starts, cpu []float64
	for range b.repeats {
		if err := s.Restart(ctx); err != nil {
			return err
		}
		err := everywhere(ctx, []*target.Target{s.Target}, func(client *rest.RESTClient) (bool, error) { return discovered(ctx, client, n) })
		if err != nil {
			return err
		}
		starts = append(starts, s.Own.Started.Seconds())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(calm):
		}
		used, err := s.CPU()
		if err != nil {
			return err
		}
		cpu = append(cpu, used[0].Seconds())
	}
	restarted, err := b.residentOf(ctx, s)
	if err != nil {
		return err
	}
	if b.profiles != "" {
		if err := s.Heap(ctx, filepath.Join(b.profiles, fmt.Sprintf("heap-definitions-%d-%s.pprof", n, s.name))); err != nil {
			return err
		}
	}
	b.report.Row(strconv.Itoa(n), s.name, each, megabytes(made), fmt.Sprintf("%.2f", measure.Median(starts)), fmt.Sprintf("%.3g", measure.Median(cpu)),
		megabytes(restarted), strconv.FormatInt((restarted-without)/int64(n)/1000, 10))
	return nil
}

// residentOf returns the resident memory of a side's apiserver after it has had time to settle.
func (b *bench) residentOf(ctx context.Context, s *side) (int64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(settle):
	}
	all, err := s.Memory()
	if err != nil {
		return 0, err
	}
	return all[0], nil
}
