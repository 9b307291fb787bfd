package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/test/chaos/plane"
)

const (
	// changedPods is the number of pods to which the prepared revisions belong.
	changedPods = 1000
	// loggedPause is long enough for a message to be stored in the log and acknowledged, after
	// which the cursor is known.
	loggedPause = 2 * time.Second
)

// arrivals counts the revisions that a subscriber receives, starting with from.
type arrivals struct {
	mu          sync.Mutex
	from        int64
	seen        map[int64]struct{}
	first, last time.Time
	complete    chan struct{}
	want        int
}

func (a *arrivals) add(m bus.Message) {
	var message watchv1.Message
	if err := proto.Unmarshal(m.Data, &message); err != nil || message.GetType() != watchv1.Type_TYPE_PUT {
		return
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if message.GetRevision() < a.from || a.from == 0 {
		return
	}
	if len(a.seen) == 0 {
		a.first = now
	}
	if _, again := a.seen[message.GetRevision()]; again {
		return
	}
	a.seen[message.GetRevision()] = struct{}{}
	a.last = now
	if len(a.seen) == a.want {
		close(a.complete)
	}
}

// catchUp measures how fast a publisher sends the backlog that it finds when it starts: revisions
// are written while no apiserver runs.
func (b *bench) catchUp(ctx context.Context) error {
	b.report.Table(fmt.Sprintf("A publisher catches up with %d revisions", b.revisions),
		"NATS servers with the log", "revisions/s", "s", "apiserver, µs of CPU each", "etcd, µs each", "NATS, µs each", "apiserver peak, MB")
	for _, servers := range []int{1, 3} {
		if err := b.catchUpWith(ctx, servers); err != nil {
			return fmt.Errorf("with %d NATS servers: %w", servers, err)
		}
	}
	return nil
}

func (b *bench) catchUpWith(ctx context.Context, servers int) error {
	const bytesEach = 8 << 10
	w, err := b.newWorld(ctx, servers, "--watch-window-events", strconv.Itoa(2*b.revisions), "--watch-window-bytes", strconv.Itoa(b.revisions*bytesEach))
	if err != nil {
		return err
	}
	defer w.Close()
	conn, err := bus.Connect(ctx, bus.Config{URLs: w.URLs(), Name: "catchup", Token: plane.Token})
	if err != nil {
		return err
	}
	defer conn.Close()
	got := &arrivals{seen: map[int64]struct{}{}, want: b.revisions, complete: make(chan struct{})}
	// Unlimited, so that no message is lost: at times the server is faster than this process.
	if _, err := conn.Subscribe(ctx, subject.Resource("", "pods"), got.add, bus.Pending(-1, -1)); err != nil {
		return err
	}
	if err := w.fill(ctx, changedPods, changedPods); err != nil {
		return err
	}
	select {
	case <-time.After(loggedPause):
	case <-ctx.Done():
		return ctx.Err()
	}
	w.Apiservers[0].Kill()
	revision, err := w.Etcd.Revision(ctx)
	if err != nil {
		return err
	}
	got.mu.Lock()
	got.from = revision + 1
	got.mu.Unlock()
	if err := w.fill(ctx, changedPods, b.revisions); err != nil {
		return err
	}
	before, err := cpu(w.servers()[1:])
	if err != nil {
		return err
	}
	if err := w.Apiservers[0].Start(ctx); err != nil {
		return err
	}
	select {
	case <-got.complete:
	case <-time.After(patience):
		return fmt.Errorf("%d of %d revisions were published in %v", len(got.seen), b.revisions, patience)
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := cpu(w.servers())
	if err != nil {
		return err
	}
	peak, err := w.servers()[0].Peak()
	if err != nil {
		return err
	}
	var nats time.Duration
	for i := range before[1:] {
		nats += after[i+2] - before[i+1]
	}
	took := got.last.Sub(got.first)
	each := func(d time.Duration) string { return micro(d / time.Duration(b.revisions)) }
	b.report.Row(strconv.Itoa(servers), fmt.Sprintf("%.0f", float64(b.revisions-1)/took.Seconds()), seconds(took),
		each(after[0]), each(after[1]-before[0]), each(nats), megabytes(peak))
	return nil
}
