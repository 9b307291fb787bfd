package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/node"
	"github.com/garboard/garboard/bench/sample"
)

const (
	// lookPause is the pause between two questions about a name that is not known yet.
	lookPause = 500 * time.Microsecond
	// writePause is the time between two writes.
	writePause = 50 * time.Millisecond
)

// fresh measures how soon the name of an endpoint is known.
func (b *bench) fresh(ctx context.Context) error {
	headless := b.services // the number of a Service without an address
	service := sample.Service(headless)
	service.Spec.ClusterIP, service.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	if _, err := b.node.Client.CoreV1().Services(node.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a headless Service: %w", err)
	}
	slices := b.node.Client.DiscoveryV1().EndpointSlices(node.Namespace)
	if _, err := slices.Create(ctx, sample.EndpointSlice(headless), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating its EndpointSlice: %w", err)
	}
	all := make([][]time.Duration, len(b.sides))
	for i := range b.endpoint {
		name := "h" + strconv.Itoa(i)
		slice := sample.EndpointSlice(headless)
		slice.Endpoints[0].Hostname = &name
		began := time.Now()
		group, asking := errgroup.WithContext(ctx)
		for j, s := range b.sides {
			group.Go(func() error {
				took, err := s.known(asking, name+"."+sample.ServiceName(headless)+zone, began)
				all[j] = append(all[j], took)
				return err
			})
		}
		_, err := slices.Update(ctx, slice, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("writing an endpoint: %w", err)
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if err := command.Pause(ctx, writePause); err != nil {
			return err
		}
	}
	b.report.Table(fmt.Sprintf("An endpoint's name is known after its write has begun (%d endpoints)", b.endpoint),
		"server", "median, ms", "99 %, ms", "most, ms")
	for j, s := range b.sides {
		took := all[j]
		b.report.Row(s.name, milliseconds(measure.Median(took)), milliseconds(measure.Share(took, 0.99)), milliseconds(measure.Share(took, 1)))
	}
	return nil
}

// known returns how long after a moment a server answers a name.
func (s side) known(ctx context.Context, name string, since time.Time) (time.Duration, error) {
	c, err := dial(ctx, s.address)
	if err != nil {
		return 0, err
	}
	defer c.close()
	for time.Since(since) < patience {
		answer, err := c.ask(name)
		if err != nil {
			return 0, fmt.Errorf("asking %s for %s: %w", s.name, name, err)
		}
		if answer[3]&15 == 0 && answer[7] > 0 {
			return time.Since(since), nil
		}
		if err := command.Pause(ctx, lookPause); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%s does not know %s after %v", s.name, name, patience)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
}
