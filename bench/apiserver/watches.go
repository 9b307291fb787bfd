package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/target"
)

// deliveryTimeout bounds the wait for the last event.
const deliveryTimeout = 2 * time.Minute

// watches measures the cost of delivering a change to one watcher, beyond the cost of the change.
func (b *bench) watches(ctx context.Context) error {
	if err := b.deleteAll(ctx); err != nil {
		return err
	}
	if err := b.fill(ctx, b.events); err != nil {
		return err
	}
	columns := append([]string{"watchers", "form"}, b.report.costColumns("µs of CPU per delivery")...)
	b.report.Table(fmt.Sprintf("Watches (%d changes by 8 clients, median of %d; without the cost of the changes themselves)", b.events, b.repeats), append(columns, "ms to the last")...)
	writers, err := b.clientsFor(ctx, 8)
	if err != nil {
		return err
	}
	change := func() error { return spread(ctx, writers, b.events, update) }
	for _, form := range []struct{ name, contentType string }{{"protobuf", protobuf}, {"JSON", json}} {
		for _, n := range b.watchers {
			costs, err := b.watched(ctx, n, form.contentType, fmt.Sprintf("watch-%s-%d", form.name, n), change)
			if err != nil {
				return err
			}
			cells := append([]string{strconv.Itoa(n), form.name}, b.report.costCells(costs, n*b.events, time.Microsecond)...)
			b.report.Row(append(cells, tookCell(costs))...)
		}
	}
	return nil
}

// watched measures changes with n watchers, minus the same changes without watchers.
func (b *bench) watched(ctx context.Context, n int, contentType, name string, change func() error) ([]target.Cost, error) {
	ctx, cancel := context.WithCancel(ctx)
	var alone []target.Cost
	for range b.repeats {
		c, err := b.target.Measure(change)
		if err != nil {
			cancel()
			return nil, err
		}
		alone = append(alone, c)
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	var received atomic.Int64
	for range n {
		client, err := b.target.Client(contentType)
		if err != nil {
			return nil, err
		}
		stream, err := watchPods(ctx, client)
		if err != nil {
			return nil, err
		}
		readers.Go(func() {
			defer func() { _ = stream.Close() }()
			count(stream, contentType, &received)
		})
	}
	var costs []target.Cost
	err := b.profile(ctx, name, func() error {
		for i := range b.repeats {
			want := received.Load() + int64(n*b.events)
			c, err := b.target.Measure(func() error {
				if err := change(); err != nil {
					return err
				}
				return arrive(ctx, &received, want)
			})
			if err != nil {
				return err
			}
			for p := range c.CPU {
				c.CPU[p] -= alone[i].CPU[p]
			}
			costs = append(costs, c)
		}
		return nil
	})
	return costs, err
}

func watchPods(ctx context.Context, client *rest.RESTClient) (io.ReadCloser, error) {
	opts := metav1.ListOptions{Watch: true}
	var list metav1.ListOptions
	list.Limit = 1
	found, err := client.Get().Namespace(namespace).Resource("pods").VersionedParams(&list, scheme.ParameterCodec).Do(ctx).Get()
	if err != nil {
		return nil, fmt.Errorf("listing to find the revision to watch from: %w", err)
	}
	if holder, ok := found.(metav1.ListMetaAccessor); ok {
		opts.ResourceVersion = holder.GetListMeta().GetResourceVersion()
	}
	stream, err := client.Get().Namespace(namespace).Resource("pods").VersionedParams(&opts, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	return stream, nil
}

// arrive waits until the number of received events is at least want.
func arrive(ctx context.Context, received *atomic.Int64, want int64) error {
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for received.Load() < want {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d events did not arrive: %w", want-received.Load(), ctx.Err())
		}
	}
	return nil
}

// count counts the events of a stream until it ends, without decoding the objects.
func count(stream io.Reader, contentType string, received *atomic.Int64) {
	buffer := make([]byte, 64<<10)
	if contentType == json {
		for {
			n, err := stream.Read(buffer)
			for _, c := range buffer[:n] {
				if c == '\n' {
					received.Add(1)
				}
			}
			if err != nil {
				return
			}
		}
	}
	// A frame consists of its length in 4 bytes, big endian, and that many bytes.
	var head [4]byte
	for {
		if _, err := io.ReadFull(stream, head[:]); err != nil {
			return
		}
		length := int64(head[0])<<24 | int64(head[1])<<16 | int64(head[2])<<8 | int64(head[3])
		if _, err := io.CopyN(io.Discard, stream, length); err != nil {
			return
		}
		received.Add(1)
	}
}
