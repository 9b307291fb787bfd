// Package drain lets an apiserver begin and end without its clients noticing: nothing is served
// before all that is needed for it is there, and at the end first those learn of it who choose
// between apiservers, then no new request is taken, and then the watches go one after the other.
package drain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/server/routes"
)

// What is answered in place of an answer is Kubernetes' own.
const (
	notBegun = "The apiserver hasn't been fully initialized yet, please try again later."
	isEnding = "The apiserver is shutting down, please try again later."
	// A client that comes too early, or too late, may come again after so many seconds.
	soon, later = 1, 5
)

// Gate is what every request passes. It begins closed, is opened by Open, and then goes through
// Announce, Refuse and EndWatches. It may be used from any goroutine.
type Gate struct {
	mu      sync.Mutex
	handler http.Handler // nil before Open
	waiting string       // what the server waits for, before Open
	reason  string       // the same for people
	watches map[*Watch]struct{}
	ended   bool // the watches are

	announced, refusing chan struct{}
}

// New makes a gate that is closed.
func New() *Gate {
	return &Gate{
		waiting: "starting", watches: map[*Watch]struct{}{},
		announced: make(chan struct{}), refusing: make(chan struct{}),
	}
}

// Waits notes what the server that is starting waits for, as readiness tells: a name like that of
// a check, and, for those who ask on the server's own machine, the same for people.
func (g *Gate) Waits(what, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting, g.reason = what, reason
}

// Open lets requests through to handler.
func (g *Gate) Open(handler http.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handler = handler
}

// Announce says that the server is about to end; everything is served still. It may be called
// once, as may Refuse after it.
func (g *Gate) Announce() { close(g.announced) }

// Announced is closed by Announce.
func (g *Gate) Announced() <-chan struct{} { return g.announced }

// Refuse takes no more requests; those in work go on.
func (g *Gate) Refuse() { close(g.refusing) }

// Refusing is closed by Refuse.
func (g *Gate) Refusing() <-chan struct{} { return g.refusing }

// ServeHTTP serves a request, or says that it is too early or too late for it.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	handler, waiting, reason := g.handler, g.waiting, g.reason
	g.mu.Unlock()
	switch {
	case handler == nil && health(r.URL.Path) != "":
		if !routes.Local(r) {
			reason = "" // It may name addresses.
		}
		unready(w, health(r.URL.Path), waiting, reason)
		return
	case handler == nil:
		refuse(w, http.StatusServiceUnavailable, soon, notBegun)
		return
	}
	if closed(g.refusing) && health(r.URL.Path) == "" {
		// For HTTP/2, too, it ends the connection as soon as what is in work there is done.
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusTooManyRequests, later, isEnding)
		return
	}
	if closed(g.announced) && r.ProtoMajor == 1 {
		// A connection that is kept might be closed just when its client sends again. HTTP/2 has a
		// word for that, and keeps its connections until then.
		w.Header().Set("Connection", "close")
	}
	handler.ServeHTTP(w, r)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// health is the name of the check at a path: livez, readyz or healthz; else empty.
func health(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if first == "livez" || first == "readyz" || first == "healthz" {
		return first
	}
	return ""
}

// unready answers a question for the health of a server that is starting.
func unready(w http.ResponseWriter, check, waiting, reason string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache, no-store, must-revalidate")
	if check == "livez" {
		_, _ = fmt.Fprint(w, "ok") // Who is gone mends nothing by starting again.
		return
	}
	if reason != "" {
		reason = ": " + reason
	}
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = fmt.Fprintf(w, "[+]ping ok\n[-]%s failed: not finished%s\n%s check failed\n", waiting, reason, check)
}

func refuse(w http.ResponseWriter, code, seconds int, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	http.Error(w, message, code)
}

// Watch is one watch that is under way.
type Watch struct {
	gate  *Gate
	ended chan struct{}
}

// Watch notes a watch. Its client must call Close.
func (g *Gate) Watch() *Watch {
	watch := &Watch{gate: g, ended: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		close(watch.ended)
		return watch
	}
	g.watches[watch] = struct{}{}
	return watch
}

// Ended is closed when the watch is to end.
func (w *Watch) Ended() <-chan struct{} { return w.ended }

// Close says that the watch has ended.
func (w *Watch) Close() {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	delete(w.gate.watches, w)
}

// EndWatches ends the watches one after the other, in any order, over a time, so that their
// clients do not come to the other servers in the same moment; all that are left when ctx ends. It
// returns how many there were.
func (g *Gate) EndWatches(ctx context.Context, over time.Duration) int {
	g.mu.Lock()
	g.ended = true
	left := make([]*Watch, 0, len(g.watches))
	for watch := range g.watches {
		left = append(left, watch)
	}
	g.mu.Unlock()
	rand.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	at := make([]time.Duration, len(left))
	for i := range at {
		at[i] = jitter(over)
	}
	slices.Sort(at)
	began := time.Now()
	for i, watch := range left {
		g.await(ctx, watch, at[i]-time.Since(began))
		close(watch.ended)
	}
	return len(left)
}

// jitter is some time within another.
func jitter(over time.Duration) time.Duration {
	if over <= 0 {
		return 0
	}
	return rand.N(over)
}

// await waits, unless the watch has ended by itself.
func (g *Gate) await(ctx context.Context, watch *Watch, pause time.Duration) {
	g.mu.Lock()
	_, there := g.watches[watch]
	g.mu.Unlock()
	if pause <= 0 || !there {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
