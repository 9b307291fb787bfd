// Package drain lets an apiserver start and stop without its clients noticing. At the start,
// nothing is served before everything that is needed for it is available. At the end, the server
// first announces the shutdown to load balancers, then refuses new requests, and then ends the
// watches one by one.
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

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/apiserver/internal/server/routes"
)

// The responses while nothing is served are Kubernetes' own.
const (
	notBegun = "The apiserver hasn't been fully initialized yet, please try again later."
	isEnding = "The apiserver is shutting down, please try again later."
	// After how many seconds a client that came too early, or too late, may retry.
	soon, later = 1, 5
)

// Gate is what every request passes through. It begins closed, is opened by Open, and then goes
// through Announce, Refuse and EndWatches. Any goroutine may use it.
type Gate struct {
	mu      sync.Mutex
	handler http.Handler // nil before Open
	waiting string       // the check that the server waits for, before Open
	reason  string       // why, in words
	watches map[*Watch]struct{}
	ended   bool // EndWatches was called

	announced, refusing chan struct{}
}

// New returns a closed gate.
func New() *Gate {
	return &Gate{
		waiting: "starting", watches: map[*Watch]struct{}{},
		announced: make(chan struct{}), refusing: make(chan struct{}),
	}
}

// Waits sets what a starting server waits for, as readiness shows it: a name like that of a check,
// and a reason in words that only clients on the server's own machine get to see.
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

// Announce announces that the server is about to stop; everything is still served. It may be called
// once, and then Refuse may be called once.
func (g *Gate) Announce() { close(g.announced) }

// Announced returns a channel that Announce closes.
func (g *Gate) Announced() <-chan struct{} { return g.announced }

// Refuse makes the gate refuse new requests; those in flight go on.
func (g *Gate) Refuse() { close(g.refusing) }

// Refusing returns a channel that Refuse closes.
func (g *Gate) Refusing() <-chan struct{} { return g.refusing }

// ServeHTTP serves a request, or responds that it came too early or too late.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	handler, waiting, reason := g.handler, g.waiting, g.reason
	g.mu.Unlock()
	switch {
	case handler == nil && health(r.URL.Path) != "":
		if !routes.Local(r) {
			reason = "" // The reason may name addresses.
		}
		unready(w, health(r.URL.Path), waiting, reason)
		return
	case handler == nil:
		refuse(w, http.StatusServiceUnavailable, soon, notBegun)
		return
	}
	if closed(g.refusing) && health(r.URL.Path) == "" {
		// Over HTTP/2, too, this ends the connection once the requests in flight on it are done.
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusTooManyRequests, later, isEnding)
		return
	}
	if closed(g.announced) && r.ProtoMajor == 1 {
		// An idle HTTP/1 connection might be closed just when its client sends again. HTTP/2 has a
		// frame for that, and keeps its connections until then.
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

// health returns the name of the check at a path: livez, readyz or healthz; else "".
func health(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if first == "livez" || first == "readyz" || first == "healthz" {
		return first
	}
	return ""
}

// unready answers a health check while the server is starting.
func unready(w http.ResponseWriter, check, waiting, reason string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache, no-store, must-revalidate")
	if check == "livez" {
		_, _ = fmt.Fprint(w, "ok") // A restart would not help.
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

// Watch is one watch in progress.
type Watch struct {
	gate  *Gate
	ended chan struct{}
}

// Watch registers a watch. The caller must call Close on it.
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

// Ended returns a channel that is closed when the watch must end.
func (w *Watch) Ended() <-chan struct{} { return w.ended }

// Close reports that the watch has ended.
func (w *Watch) Close() {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	delete(w.gate.watches, w)
}

// Until serves a request whose context also ends when the watches must end.
func (g *Gate) Until(r *http.Request, serve func(r *http.Request)) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watch := g.Watch()
	defer watch.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-watch.Ended():
			cancel()
		case <-ended:
		}
	}()
	serve(r.WithContext(ctx))
}

// EndWatches ends the watches one by one, in random order and spread over the given time, so that
// their clients don't all reconnect to the other servers at once. When ctx ends, it ends all
// remaining ones. It returns how many there were.
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

// jitter returns a random time less than over.
func jitter(over time.Duration) time.Duration {
	if over <= 0 {
		return 0
	}
	return rand.N(over)
}

// await waits for pause or until ctx ends, unless the watch has ended by itself.
func (g *Gate) await(ctx context.Context, watch *Watch, pause time.Duration) {
	g.mu.Lock()
	_, there := g.watches[watch]
	g.mu.Unlock()
	if pause <= 0 || !there {
		return
	}
	backoff.Sleep(ctx, pause)
}
