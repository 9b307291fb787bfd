package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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
	// stall is how long no revision arrives before the rest counts as lost.
	stall = 30 * time.Second
)

// arrivals counts the revisions that a subscriber receives, starting with from.
type arrivals struct {
	mu          sync.Mutex
	from        int64
	seen        map[int64]struct{}
	first, last time.Time
	complete    chan struct{}
	heard       chan struct{} // closed when something arrives before from is known
	once        sync.Once
	want        int
	// connections and slow count how often the subscriber lost its connection, and messages that came too fast.
	connections, slow int
}

func (a *arrivals) count(what *int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*what++
}

// missing says what has not arrived.
func (a *arrivals) missing() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var gaps []string
	for revision := a.from; revision < a.from+int64(a.want) && len(gaps) < 5; revision++ {
		if _, ok := a.seen[revision]; ok {
			continue
		}
		end := revision
		for _, ok := a.seen[end+1]; !ok && end+1 < a.from+int64(a.want); _, ok = a.seen[end+1] {
			end++
		}
		gaps = append(gaps, fmt.Sprintf("%d to %d", revision, end))
		revision = end
	}
	return fmt.Errorf("%d of %d revisions arrived, from %d on, and no other in %v; the first gaps: %s; "+
		"the subscriber lost its connection %d times and was slow %d times",
		len(a.seen), a.want, a.from, stall, strings.Join(gaps, ", "), a.connections, a.slow)
}

// isStalled reports whether revisions are missing and none has arrived for a while.
func (a *arrivals) isStalled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen) > 0 && len(a.seen) < a.want && time.Since(a.last) > stall
}

// await waits until all revisions have arrived. Messages of NATS may get lost, and informers ask for those; this
// subscriber does not.
func (a *arrivals) await(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	late := time.After(patience)
	for {
		select {
		case <-a.complete:
			return nil
		case <-late:
			return a.missing()
		case <-tick.C:
			if a.isStalled() {
				return a.missing()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *arrivals) add(m bus.Message) {
	var message watchv1.Message
	if err := proto.Unmarshal(m.Data, &message); err != nil || message.GetType() != watchv1.Type_TYPE_PUT {
		return
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from == 0 {
		a.once.Do(func() { close(a.heard) })
	}
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

// published writes until something written arrives at the subscriber. Servers that have just started may take seconds
// to agree on a leader of the log; a publisher that finds no log has nothing to catch up with.
func (w *world) published(ctx context.Context, got *arrivals) error {
	late := time.After(patience)
	for {
		if err := w.fill(ctx, changedPods, changedPods); err != nil {
			return err
		}
		select {
		case <-got.heard:
			return nil
		case <-time.After(time.Second):
		case <-late:
			return fmt.Errorf("nothing was published in %v", patience)
		case <-ctx.Done():
			return ctx.Err()
		}
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
	got := &arrivals{seen: map[int64]struct{}{}, want: b.revisions, complete: make(chan struct{}), heard: make(chan struct{})}
	// Unlimited, so that no message is lost: at times the server is faster than this process.
	slow := bus.OnLoss(func(error) { got.count(&got.slow) })
	if _, err := conn.Subscribe(ctx, subject.Resource("", "pods"), got.add, bus.Pending(-1, -1), slow); err != nil {
		return err
	}
	defer conn.OnReconnect(func() { got.count(&got.connections) })()
	if err := w.published(ctx, got); err != nil {
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
	if err := got.await(ctx); err != nil {
		return err
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
