package peers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/nodeagent/internal/peers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a network of peers, and a Prober in it.
type world struct {
	*peers.Prober
	metrics *prometheus.Registry

	mu     sync.Mutex
	list   []peers.Peer // nil while they are not known
	up     map[string]error
	asked  []string
	change int
}

// named returns a number of peers.
func named(count int) []peers.Peer {
	list := make([]peers.Peer, count)
	for i := range list {
		list[i] = peers.Peer{Node: fmt.Sprintf("n%03d", i), Address: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}
	}
	return list
}

// start runs a Prober until the test ends.
func start(t *testing.T, list []peers.Peer) *world {
	t.Helper()
	w := &world{list: list, up: map[string]error{}, metrics: prometheus.NewRegistry()}
	w.Prober = peers.New(peers.Config{
		Peers: func() ([]peers.Peer, bool) { w.mu.Lock(); defer w.mu.Unlock(); return w.list, w.list != nil },
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			w.mu.Lock()
			w.asked = append(w.asked, address)
			err, up := w.up[strings.TrimSuffix(address, ":10256")]
			w.mu.Unlock()
			if !up {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			here, there := net.Pipe()
			_ = there.Close()
			return here, err
		},
		Changed: func() { w.mu.Lock(); defer w.mu.Unlock(); w.change++ },
		Logger:  slog.New(slog.DiscardHandler), Registerer: w.metrics,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// set has a peer answer, with an error or without; or not at all.
func (w *world) set(peer int, answers bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	address := w.list[peer].Address.String()
	delete(w.up, address)
	if answers {
		w.up[address] = err
	}
}

// took returns how many questions were asked, and how often the verdict changed.
func (w *world) took() (asked, changes int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	asked, changes = len(w.asked), w.change
	w.asked, w.change = nil, 0
	return asked, changes
}

func (w *world) want(t *testing.T, known, reached bool, changes int) {
	t.Helper()
	_, changed := w.took()
	if got := w.Verdict(); got.Known != known || got.Reached != reached || changed != changes {
		t.Errorf("got %+v after %d changes, want known %t, reached %t, %d changes", got, changed, known, reached, changes)
	}
}

// TestVerdict: one answer tells, three silent rounds tell, and fewer change nothing.
func TestVerdict(t *testing.T) { synctest.Test(t, testVerdict) }

func testVerdict(t *testing.T) {
	w := start(t, named(2))
	time.Sleep(3 * time.Second)
	w.want(t, false, false, 0)
	time.Sleep(4 * peers.Period * 3 / 2)
	w.want(t, true, false, 1)
	if got := w.Verdict(); got.Count != 2 || strings.Join(got.Names, " ") != "n000 n001" {
		t.Errorf("got %+v", got)
	}
	if families, err := w.metrics.Gather(); err != nil || len(families) != 1 || families[0].GetMetric()[0].GetGauge().GetValue() != 0 {
		t.Errorf("the metric is %v, %v", families, err)
	}
	w.set(1, true, &net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}) // A refusal is an answer.
	time.Sleep(2 * peers.Period)
	w.want(t, true, true, 1)
	w.set(1, true, errors.New("no route to host"))
	time.Sleep(peers.Period)
	w.want(t, true, true, 0)
	w.set(0, true, nil)
	time.Sleep(5 * peers.Period)
	w.want(t, true, true, 0)
	w.set(0, false, nil)
	time.Sleep(5 * peers.Period)
	w.want(t, true, false, 1)
}

// TestAlone: a node without peers reaches all; one whose peers are not known asks nobody.
func TestAlone(t *testing.T) { synctest.Test(t, testAlone) }

func testAlone(t *testing.T) {
	w := start(t, nil)
	time.Sleep(time.Minute)
	w.want(t, false, false, 0)
	w.mu.Lock()
	w.list = []peers.Peer{}
	w.mu.Unlock()
	time.Sleep(2 * peers.Period)
	w.want(t, true, true, 1)
}

// TestMany: the questions are bounded, however many nodes there are, and names are, too.
func TestMany(t *testing.T) { synctest.Test(t, testMany) }

func testMany(t *testing.T) {
	w := start(t, named(5000))
	time.Sleep(10 * time.Minute)
	asked, _ := w.took()
	if most := 10 * 60 / 5 * peers.MaxAsked; asked < 100 || asked > most {
		t.Errorf("%d questions in ten minutes, at most %d", asked, most)
	}
	if got := w.Verdict(); got.Count != 5000 || len(got.Names) != 3 {
		t.Errorf("got %+v", got)
	}
}
