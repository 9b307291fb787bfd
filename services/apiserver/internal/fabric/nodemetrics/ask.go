package nodemetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
)

const (
	// path is where a node agent serves its stats.
	path = "/stats/summary?only_cpu_and_memory=true"
	// patience bounds a question to a node, and a read of many nodes. Autoscaling waits twice as long for a read.
	patience = 5 * time.Second
	// fresh is how long an answer counts, and for how long a node that gave none is left alone: twice as long
	// after each further failure up to maxDoublings, so that silent nodes seldom hold up a read.
	fresh, maxDoublings = 15 * time.Second, 3
	// kept is how long a node is remembered that nobody asks about.
	kept = 10 * time.Minute
	// width is how many nodes are asked at a time, and retries how many more of those that did not answer
	// last time.
	width, retries = 64, 64
	// maxAnswer bounds the answer of a node, in bytes. A container has about 700 of them.
	maxAnswer = 4 << 20
)

// The outcomes of questions, as the metrics name them.
const (
	answered = "answered"
	absent   = "absent"  // no agent of the node can be reached
	silent   = "silent"  // the time was over
	refused  = "refused" // another status, or an answer that cannot be used
)

// errTooLong means that an answer is longer than maxAnswer.
var errTooLong = fmt.Errorf("its stats have more than %d bytes", maxAnswer)

// asker asks nodes and remembers their answers. Any goroutine may use it. Its goroutines end with the calls of
// read that start them.
type asker struct {
	to      func(node string) http.RoundTripper
	logger  *slog.Logger
	metrics *metrics
	// slots are held by the questions under way; again by those to nodes that did not answer last time.
	slots, again chan struct{}

	mu    sync.Mutex
	nodes map[string]*known
	swept time.Time
}

// known is what is known of a node.
type known struct {
	name     string
	used     time.Time
	last     *answer       // nil if there is none
	failures int           // of the last questions, which have no answer
	until    time.Time     // until when that counts
	asking   chan struct{} // closed when the question under way ends; nil if none is
}

func newAsker(to func(node string) http.RoundTripper, logger *slog.Logger, metrics *metrics) *asker {
	return &asker{
		to: to, logger: logger, metrics: metrics, nodes: map[string]*known{},
		slots: make(chan struct{}, width), again: make(chan struct{}, retries),
	}
}

// read returns the answers of nodes, by name, without those that have none. It returns after patience at the
// latest, with what is there.
func (a *asker) read(ctx context.Context, nodes []string) map[string]*answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := make(map[string]*answer, len(nodes))
	for left := nodes; ; {
		var mine []*known
		var theirs []<-chan struct{}
		left, mine, theirs = a.claim(left, found, ctx.Err() == nil)
		if len(left) == 0 || ctx.Err() != nil {
			return found
		}
		a.ask(ctx, mine)
		for _, done := range theirs {
			select {
			case <-done:
			case <-ctx.Done():
			}
		}
	}
}

// claim adds the answers that count to found. It returns the nodes of which nothing is known now: mine, which the
// caller must ask if it may, and theirs, about which others ask.
func (a *asker) claim(nodes []string, found map[string]*answer, may bool) (left []string, mine []*known, theirs []<-chan struct{}) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep(now)
	var last []*known
	for _, name := range nodes {
		k := a.nodes[name]
		if k == nil {
			k = &known{name: name}
			a.nodes[name] = k
		}
		k.used = now
		switch {
		case now.Before(k.until):
			if k.failures == 0 {
				found[name] = k.last
			}
			continue
		case k.asking != nil:
			theirs = append(theirs, k.asking)
		case !may:
		case k.failures > 0:
			k.asking = make(chan struct{})
			last = append(last, k)
		default:
			k.asking = make(chan struct{})
			mine = append(mine, k)
		}
		left = append(left, name)
	}
	return left, append(mine, last...), theirs
}

// sweep forgets nodes that nobody asks about. The lock is held.
func (a *asker) sweep(now time.Time) {
	if now.Sub(a.swept) < kept/10 {
		return
	}
	a.swept = now
	for name, k := range a.nodes {
		if k.asking == nil && now.Sub(k.used) > kept {
			delete(a.nodes, name)
		}
	}
}

// ask asks claimed nodes, of which those that did not answer last time come last: they cannot hold the others
// up. It returns when no claim is left.
func (a *asker) ask(ctx context.Context, mine []*known) {
	var work sync.WaitGroup
	defer work.Wait()
	for i, k := range mine {
		slots := a.slots
		if k.failures > 0 { // Only the holder of the claim changes it.
			slots = a.again
		}
		select {
		case slots <- struct{}{}:
			work.Go(func() {
				defer func() { <-slots }()
				a.askOne(ctx, k)
			})
		case <-ctx.Done():
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, left := range mine[i:] {
				left.end()
			}
			return
		}
	}
}

// askOne asks a claimed node. A caller that had little time learns nothing about the node.
func (a *asker) askOne(ctx context.Context, k *known) {
	began := time.Now()
	next, err := a.fetch(ctx, k.name, k.last)
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	defer k.end()
	if err != nil && ctx.Err() != nil && now.Sub(began) < patience/2 {
		return
	}
	said := outcome(err)
	a.metrics.asked(said, now.Sub(began))
	if err != nil && k.failures == 0 {
		level := slog.LevelWarn
		if said == absent { // The controllers report that.
			level = slog.LevelDebug
		}
		a.logger.Log(ctx, level, "a node does not give its stats", "node", k.name, "err", err)
	}
	k.until = now.Add(fresh)
	switch said {
	case answered:
		k.last, k.failures = next, 0
	case absent: // That costs no time.
		k.failures = 1
	default:
		k.until = now.Add(fresh << min(k.failures, maxDoublings))
		k.failures++
	}
}

// end ends a claim. The asker's lock is held.
func (k *known) end() {
	close(k.asking)
	k.asking = nil
}

// fetch asks a node. before is its previous answer, or nil.
func (a *asker) fetch(ctx context.Context, node string, before *answer) (*answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for stats: %w", err)
	}
	response, err := a.to(node).RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("asking for stats: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if closed := response.Body.Close(); err == nil && len(data) <= maxAnswer {
		err = closed
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("receiving its stats: %w", err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("asking for stats: it answered with the status %d", response.StatusCode)
	case len(data) > maxAnswer:
		return nil, errTooLong
	}
	return parse(data, before, time.Now())
}

func outcome(err error) string {
	switch {
	case err == nil:
		return answered
	case errors.Is(err, bushttp.ErrNoServer), errors.Is(err, bus.ErrDisconnected):
		return absent
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return silent
	}
	return refused
}
