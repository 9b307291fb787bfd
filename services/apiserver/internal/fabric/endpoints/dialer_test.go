package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ways are how a Dialer connects in a test.
type ways struct {
	mu              sync.Mutex
	tried           []string
	direct, through outcome
	closed          []string
}

// outcome is what comes of a way, and after how long.
type outcome struct {
	after time.Duration
	err   error
	late  bool // it connects although it has been canceled
}

// named is a connection that tells when it is closed.
type named struct {
	net.Conn
	name string
	of   *ways
}

func (n *named) Close() error {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.of.closed = append(n.of.closed, n.name)
	return nil
}

func (w *ways) take(ctx context.Context, name, to string, o outcome) (net.Conn, error) {
	w.mu.Lock()
	w.tried = append(w.tried, name+" "+to)
	w.mu.Unlock()
	select {
	case <-time.After(o.after):
	case <-ctx.Done():
		if !o.late {
			return nil, context.Cause(ctx)
		}
	}
	if o.err != nil {
		return nil, o.err
	}
	return &named{name: name, of: w}, nil
}

func (w *ways) dialer() *Dialer {
	return NewDialer(func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.take(ctx, "direct", address, w.direct)
	}, func(ctx context.Context, pod *corev1.Pod, port string) (net.Conn, error) {
		return w.take(ctx, "through", pod.Spec.NodeName+":"+port, w.through)
	})
}

func at(address, node string) Endpoint {
	endpoint := Endpoint{Address: address, Port: "80"}
	if node != "" {
		endpoint.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: corev1.PodSpec{NodeName: node}}
	}
	return endpoint
}

// TestDial checks which ways are tried to an endpoint, and which is taken.
func TestDial(t *testing.T) {
	refused, gone := errors.New("connection refused"), errors.New("the agent is gone")
	for _, tc := range []struct {
		name, address, node string
		ways                *ways
		tried               []string
		want                string // the connection that is taken
		took                time.Duration
		fault               string
		closed              []string
	}{
		{name: "no pod", address: "192.0.2.1:80", tried: []string{"direct 192.0.2.1:80"}, want: "direct"},
		{name: "no pod, refused", address: "192.0.2.1:80", ways: &ways{direct: outcome{err: refused}}, tried: []string{"direct 192.0.2.1:80"}, fault: "connection refused"},
		{name: "a route", address: "10.1.2.3:80", node: "n1", ways: &ways{direct: outcome{after: 200 * time.Millisecond}},
			tried: []string{"direct 10.1.2.3:80"}, want: "direct", took: 200 * time.Millisecond},
		{name: "no answer", address: "10.1.2.3:80", node: "n1", ways: &ways{direct: outcome{after: time.Minute}, through: outcome{after: time.Second}},
			tried: []string{"direct 10.1.2.3:80", "through n1:80"}, want: "through", took: headStart + time.Second},
		{name: "both connect", address: "10.1.2.3:80", node: "n1", ways: &ways{direct: outcome{after: time.Minute, late: true}},
			tried: []string{"direct 10.1.2.3:80", "through n1:80"}, want: "through", took: headStart, closed: []string{"direct"}},
		{name: "the slow route is faster", address: "10.1.2.3:80", node: "n1", ways: &ways{direct: outcome{after: time.Second}, through: outcome{after: time.Minute}},
			tried: []string{"direct 10.1.2.3:80", "through n1:80"}, want: "direct", took: time.Second},
		{name: "refused", address: "10.1.2.3:80", node: "n1", ways: &ways{direct: outcome{err: refused}},
			tried: []string{"direct 10.1.2.3:80", "through n1:80"}, want: "through"},
		{name: "neither", address: "10.1.2.3:80", node: "n1", ways: &ways{direct: outcome{err: refused}, through: outcome{err: gone}},
			tried: []string{"direct 10.1.2.3:80", "through n1:80"}, fault: "connecting to pod ns/web at 10.1.2.3:80: connection refused\nthe agent is gone"},
		{name: "this machine", address: "127.0.0.1:80", node: "n1", tried: []string{"through n1:80"}, want: "through"},
		{name: "the link", address: "169.254.169.254:80", node: "n1", tried: []string{"through n1:80"}, want: "through"},
		{name: "no address", address: "localhost:80", node: "n1", tried: []string{"through n1:80"}, want: "through"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.ways == nil {
					tc.ways = &ways{}
				}
				began := time.Now()
				conn, err := tc.ways.dialer().Dial(With(t.Context(), at(tc.address, tc.node)), "tcp", tc.address)
				took := time.Since(began)
				synctest.Wait()
				if fmt.Sprint(err) != tc.fault && (err != nil || tc.fault != "") {
					t.Errorf("got the error %v, want %q", err, tc.fault)
				}
				if got, _ := conn.(*named); (got == nil) != (tc.want == "") || got != nil && got.name != tc.want {
					t.Errorf("took %+v, want %s", got, tc.want)
				}
				if !slices.Equal(tc.ways.tried, tc.tried) || took != tc.took || !slices.Equal(tc.ways.closed, tc.closed) {
					t.Errorf("tried %q in %v and closed %q, want %q in %v", tc.ways.tried, took, tc.ways.closed, tc.tried, tc.took)
				}
			})
		})
	}
}

// TestDialRemembers checks that a node without a route is not tried directly each time, nor for ever.
func TestDialRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ways{direct: outcome{err: errors.New("no route to host")}}
		d := w.dialer()
		dial := func(node string) string {
			w.tried = nil
			_, err := d.Dial(With(t.Context(), at("10.1.2.3:80", node)), "tcp", "10.1.2.3:80")
			return strings.Join(w.tried, ", ") + fmt.Sprintf(": %v", err != nil)
		}
		const both = "direct 10.1.2.3:80, through n1:80: false"
		for i, want := range []string{both, "through n1:80: false"} {
			if got := dial("n1"); got != want {
				t.Errorf("dial %d: %s, want %s", i, got, want)
			}
		}
		if got, want := dial("n2"), strings.ReplaceAll(both, "n1", "n2"); got != want {
			t.Errorf("another node: %s, want %s", got, want)
		}
		time.Sleep(memory)
		if got := dial("n1"); got != both {
			t.Errorf("after a while: %s, want %s", got, both)
		}
		w.through.err = errors.New("the agent is gone")
		if got, want := dial("n1"), "through n1:80: true"; got != want {
			t.Errorf("without an agent: %s, want %s", got, want)
		}
		w.direct.err = nil
		if got, want := dial("n1"), "direct 10.1.2.3:80: false"; got != want {
			t.Errorf("with a route again: %s, want %s", got, want)
		}
		// What dials for another address, such as a proxy's, is no endpoint.
		w.tried = nil
		if _, err := d.Dial(With(t.Context(), at("10.1.2.3:80", "n1")), "tcp", "192.0.2.9:3128"); err != nil || !slices.Equal(w.tried, []string{"direct 192.0.2.9:3128"}) {
			t.Errorf("another address: tried %q, %v", w.tried, err)
		}
		for i := range maxNodes + 10 {
			d.remember(fmt.Sprint(i), time.Now())
		}
		if len(d.behind) > maxNodes {
			t.Errorf("%d nodes are remembered", len(d.behind))
		}
	})
}
