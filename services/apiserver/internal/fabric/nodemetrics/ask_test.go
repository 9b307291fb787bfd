package nodemetrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
)

// TestThousandNodes reads the figures of many nodes, of which some never answer, and others do not exist.
func TestThousandNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{answer: func(ctx context.Context, node string) (string, error) {
			switch {
			case strings.HasSuffix(node, "7"): // 100 of them
				return never(ctx)
			case strings.HasSuffix(node, "3"):
				return "", bushttp.ErrNoServer
			}
			time.Sleep(50 * time.Millisecond)
			return summaryOf(stats("", time.Now(), 1, 1)), nil
		}}
		for i := range 1000 {
			c.nodes = append(c.nodes, node(fmt.Sprintf("n%03d", i)))
		}
		m := c.start()
		before, most := runtime.NumGoroutine(), 0
		read := func() (nodes int, took time.Duration) {
			began := time.Now()
			found, err := m.Nodes(t.Context(), "", "", everything)
			if err != nil {
				t.Error(err)
			}
			return len(found), time.Since(began)
		}
		go func() {
			time.Sleep(patience / 2)
			most = runtime.NumGoroutine()
		}()
		// The first time nothing tells the silent ones from the others. They hold all slots at the end.
		nodes, took := read()
		if nodes < 500 || nodes > 799 || took > patience {
			t.Errorf("read %d nodes in %s", nodes, took)
		}
		if c.least > width+retries || most-before > width+retries+5 {
			t.Errorf("%d questions at a time, %d goroutines", c.least, most-before)
		}
		// From then on those that answer are asked before them.
		time.Sleep(2 * fresh)
		nodes, took = read()
		if nodes != 800 || took > patience {
			t.Errorf("read %d nodes in %s later, want 800", nodes, took)
		}
		if nodes, took := read(); nodes != 800 || took > 0 {
			t.Errorf("read %d nodes in %s at once after that", nodes, took)
		}
	})
}

// TestOneQuestionAtATime shares a question among readers. When the reader that asks goes away, another one asks.
func TestOneQuestionAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{nodes: []scheme.Object{node("n1")}}
		c.answer = func(ctx context.Context, _ string) (string, error) {
			select {
			case <-ctx.Done():
				return "", context.Cause(ctx)
			case <-time.After(3 * time.Second):
				return summaryOf(stats("", time.Now(), 1, 1)), nil
			}
		}
		m := c.start()
		leaving, leave := context.WithTimeout(t.Context(), 2*time.Second)
		defer leave()
		var readers sync.WaitGroup
		readers.Go(func() {
			if got := show(m.Nodes(leaving, "", "", everything)); got != "" {
				t.Errorf("the reader that left got %s", got)
			}
		})
		time.Sleep(time.Second)
		for range 10 {
			readers.Go(func() {
				if got := show(m.Nodes(t.Context(), "", "", everything)); got == "" {
					t.Error("a reader got nothing")
				}
			})
		}
		readers.Wait()
		if c.asked["n1"] != 2 || c.least != 1 {
			t.Errorf("asked %d times, %d at a time; want two questions one after the other", c.asked["n1"], c.least)
		}
	})
}

// TestFailures leaves nodes alone for a while that do not answer well, and says why once.
func TestFailures(t *testing.T) {
	for name, each := range map[string]struct {
		body, log, outcome string
		err                error
	}{
		"no agent":     {err: bushttp.ErrNoServer, outcome: absent},
		"no bus":       {err: bus.ErrDisconnected, outcome: absent},
		"not served":   {body: "404", err: status(404), outcome: refused, log: "the status 404"},
		"broken":       {err: errors.New("broken"), outcome: refused, log: "broken"},
		"not JSON":     {body: "{", outcome: refused, log: "reading its stats"},
		"without end":  {body: strings.Repeat(" ", maxAnswer+1), outcome: refused, log: "more than 4194304 bytes"},
		"a redirect":   {body: "", err: status(302), outcome: refused, log: "the status 302"},
		"never":        {err: context.DeadlineExceeded, outcome: silent, log: "deadline"},
		"just in size": {body: "{}" + strings.Repeat(" ", maxAnswer-2), outcome: answered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{nodes: []scheme.Object{node("n1")}}
				c.answer = func(ctx context.Context, _ string) (string, error) {
					if errors.Is(each.err, context.DeadlineExceeded) {
						return never(ctx)
					}
					return each.body, each.err
				}
				m := c.start()
				for range 2 {
					if got := show(m.Nodes(t.Context(), "", "", everything)); got != "" {
						t.Errorf("got %s", got)
					}
				}
				if c.asked["n1"] != 1 {
					t.Errorf("asked %d times", c.asked["n1"])
				}
				time.Sleep(fresh)
				show(m.Nodes(t.Context(), "", "", everything))
				time.Sleep(fresh)
				show(m.Nodes(t.Context(), "", "", everything))
				if again := c.asked["n1"] == 3; again == (each.outcome == silent || each.outcome == refused) {
					t.Errorf("asked %d times", c.asked["n1"])
				}
				time.Sleep(fresh)
				show(m.Nodes(t.Context(), "", "", everything))
				var counted dto.Metric
				if err := m.asker.metrics.asks.WithLabelValues(each.outcome).Write(&counted); err != nil || counted.GetCounter().GetValue() != float64(c.asked["n1"]) {
					t.Errorf("counted %v as %s (%v), want %d", &counted, each.outcome, err, c.asked["n1"])
				}
				if said := c.logs.String(); strings.Count(said, "\n") != min(len(each.log), 1) || !strings.Contains(said, each.log) {
					t.Errorf("logged %q", said)
				}
			})
		})
	}
}

// TestForgets drops what is known of nodes that nobody asks about.
func TestForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{nodes: []scheme.Object{node("n1"), node("n2")}, answer: func(context.Context, string) (string, error) { return "{}", nil }}
		m := c.start()
		show(m.Nodes(t.Context(), "", "", everything))
		time.Sleep(kept)
		show(m.Nodes(t.Context(), "", "n1", everything))
		time.Sleep(kept / 2)
		show(m.Nodes(t.Context(), "", "n1", everything))
		if len(m.asker.nodes) != 1 || m.asker.nodes["n1"] == nil {
			t.Errorf("%d nodes are remembered", len(m.asker.nodes))
		}
	})
}

// TestOverTheBus asks agents over NATS, of which one never ends its answer.
func TestOverTheBus(t *testing.T) {
	nats := bustest.NewServer(t)
	own := nats.Connect()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	for _, name := range []string{"n1", "n2"} {
		serving := make(chan struct{})
		server := serve.New(serve.Config{
			Conn: nats.Connect(), Node: name, Drain: time.Millisecond, Serving: func() { close(serving) },
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RequestURI() != path {
					http.NotFound(w, r)
					return
				}
				if name == "n2" {
					_, _ = w.Write([]byte("{"))
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					return
				}
				_, _ = w.Write([]byte(summaryOf(stats("", time.Now(), 1500001, 5<<20))))
			}),
		})
		go func() { ended <- server.Run(ctx) }()
		<-serving
	}
	nodes := nodeproxy.NewNodes(func() *bus.Conn { return own }, slog.New(slog.DiscardHandler))
	go func() { ended <- nodes.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{nodes: []scheme.Object{node("n1"), node("n2"), node("n3")}}
	m := c.start()
	m.asker.to = nodes.To
	leaving, leave := context.WithTimeout(ctx, time.Second)
	defer leave()
	began := time.Now()
	if got, want := show(m.Nodes(leaving, "", "", everything)), "n1 map[zone:n1] 15s 1500001n/5Mi"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if took := time.Since(began); took >= patience {
		t.Errorf("it took %s", took)
	}
}
