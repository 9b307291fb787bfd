package drain

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGate(t *testing.T) {
	g := New()
	ask := func(path string, major int) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.ProtoMajor = major
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w
	}
	check := func(stage, path string, major, code int, body, retry, connection string) {
		t.Helper()
		w := ask(path, major)
		if w.Code != code || !strings.Contains(w.Body.String(), body) || w.Header().Get("Retry-After") != retry || w.Header().Get("Connection") != connection {
			t.Errorf("%s: %s over HTTP/%d: got %d %q %v", stage, path, major, w.Code, w.Body, w.Header())
		}
	}
	g.Waits("etcd", "etcd at x has not answered yet")
	check("starting", "/livez", 2, 200, "ok", "", "")
	check("starting", "/readyz", 2, 500, "[-]etcd failed: not finished\nreadyz check failed", "", "")
	here := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	here.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	if g.ServeHTTP(w, here); !strings.Contains(w.Body.String(), "[-]etcd failed: not finished: etcd at x has not answered yet\n") {
		t.Errorf("on the server's own machine: got %q", w.Body)
	}
	check("starting", "/readyz/etcd", 2, 500, "[-]etcd failed", "", "")
	check("starting", "/api", 2, 503, "The apiserver hasn't been fully initialized yet, please try again later.", "1", "")
	g.Open(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "served "+r.URL.Path) }))
	check("open", "/readyz", 2, 200, "served /readyz", "", "")
	check("open", "/api", 1, 200, "served /api", "", "")
	g.Announce()
	check("announced", "/api", 2, 200, "served /api", "", "")
	check("announced", "/api", 1, 200, "served /api", "", "close")
	g.Refuse()
	check("refusing", "/api", 2, 429, "The apiserver is shutting down, please try again later.", "5", "close")
	check("refusing", "/api", 1, 429, "shutting down", "5", "close")
	check("refusing", "/readyz", 2, 200, "served /readyz", "", "")
}

// TestWatchesEndOverTime: the watches end one by one, spread evenly over the time; a watch that
// begins later ends at once.
func TestWatchesEndOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, over = 1000, 10 * time.Second
		g, began := New(), time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var all sync.WaitGroup
		for range n {
			watch := g.Watch()
			all.Go(func() {
				defer watch.Close()
				<-watch.Ended()
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(began))
			})
		}
		gone := g.Watch()
		gone.Close()
		if ended := g.EndWatches(t.Context(), over); ended != n {
			t.Errorf("EndWatches returned %d watches, want %d", ended, n)
		}
		all.Wait()
		slices.Sort(at)
		for part := range 10 {
			from, to := time.Duration(part)*over/10, time.Duration(part+1)*over/10
			count := 0
			for _, when := range at {
				if when >= from && when < to {
					count++
				}
			}
			if count < n/20 || count > n/5 {
				t.Errorf("%d of %d watches ended between %v and %v", count, n, from, to)
			}
		}
		select {
		case <-g.Watch().Ended():
		default:
			t.Error("a watch that begins later goes on")
		}
	})
}

func TestWatchesEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			over, patience, want time.Duration
		}{
			"no time":       {0, time.Hour, 0},
			"a short while": {time.Hour, time.Second, time.Second},
		} {
			g, began := New(), time.Now()
			watches := []*Watch{g.Watch(), g.Watch()}
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			g.EndWatches(ctx, c.over)
			cancel()
			for _, watch := range watches {
				<-watch.Ended()
			}
			if took := time.Since(began); took > c.want {
				t.Errorf("%s: took %v, want at most %v", name, took, c.want)
			}
		}
	})
}
