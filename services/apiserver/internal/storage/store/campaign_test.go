package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// elections is where the keys of the election "test" are, below the store's prefix.
const elections = "/garboard/election/registry/test"

// crowd is who is there, for those who look by its members.
type crowd struct {
	mu   sync.Mutex
	here map[string]bool
}

// member is one process's way to look.
type member struct {
	crowd *crowd
	// blind, if set, says whom the member takes for gone, whoever is there.
	blind func(candidate string) bool
	looks chan string // a candidate for each look
}

func (c *crowd) member() *member { return &member{crowd: c, looks: make(chan string, 1000)} }

func (m *member) Announce(_ context.Context, candidate string) (func(), error) {
	c := m.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.here == nil {
		c.here = map[string]bool{}
	}
	c.here[candidate] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.here, candidate)
	}, nil
}

func (m *member) Gone(_ context.Context, candidate string) bool {
	m.looks <- candidate
	if m.blind != nil {
		return m.blind(candidate)
	}
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	return !m.crowd.here[candidate]
}

// runner is a process that campaigns.
type runner struct {
	elected, ended chan struct{}
	deposed        chan struct{} // a value for each leader whom it deposed
	stop           func()
}

func campaign(t *testing.T, s *store.Store, presence store.Presence) *runner {
	t.Helper()
	r := &runner{elected: make(chan struct{}, 100), ended: make(chan struct{}, 100), deposed: make(chan struct{}, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		e := store.Election{Name: "test", Presence: presence, Deposed: func() { r.deposed <- struct{}{} }}
		if err := s.Campaign(ctx, e, func(ctx context.Context) error {
			r.elected <- struct{}{}
			<-ctx.Done()
			r.ended <- struct{}{}
			return ctx.Err()
		}); err != nil {
			t.Errorf("campaigning: %v", err)
		}
	})
	r.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(r.stop)
	return r
}

// TestDeadLeadersAreDeposed: who was killed keeps his key and his lease, and yet another leads;
// however many of them are in line.
func TestDeadLeadersAreDeposed(t *testing.T) {
	t.Parallel()
	etcd, g, all := etcdtest.Start(t), &guard{}, &crowd{}
	first, second := etcd.Dead(t, elections, "dead_1"), etcd.Dead(t, elections, "dead_2")
	s := open(t, store.Config{Servers: etcd.Endpoints(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(g.intercept)}})
	r := campaign(t, s, all.member())
	waitFor(t, r.elected)
	if !etcd.Lives(t, first) || !etcd.Lives(t, second) {
		t.Error("a lease of the dead has run out: that may be why another was elected")
	}
	for range 2 {
		waitFor(t, r.deposed)
	}
	if keys := etcd.Values(t, elections); len(keys) != 1 {
		t.Errorf("the election has the keys %v", keys)
	}
	r.stop()
	for _, request := range g.unguarded {
		t.Errorf("not guarded: %s", request)
	}
}

// TestTheLivingAreNotDeposed: nobody who is there, or was there at one of two looks, is deposed.
func TestTheLivingAreNotDeposed(t *testing.T) {
	t.Parallel()
	etcd, all := etcdtest.Start(t), &crowd{}
	lease := etcd.Dead(t, elections, "living")
	for name, gone := range map[string]func(look int) bool{
		"there":           func(int) bool { return false },
		"there at times":  func(look int) bool { return look%2 == 0 },
		"often not there": func(look int) bool { return look%2 == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s, m := open(t, store.Config{Servers: etcd.Endpoints()}), all.member()
			look := -1
			m.blind = func(string) bool { look++; return gone(look) }
			r := campaign(t, s, m)
			defer r.stop()
			for range 6 {
				if candidate := waitFor(t, m.looks); candidate != "living" {
					t.Fatalf("it looks for %s", candidate)
				}
			}
			select {
			case <-r.elected:
				t.Error("another was elected")
			case <-r.deposed:
				t.Error("who lives was deposed")
			default:
			}
		})
	}
	if len(etcd.Values(t, elections)) != 1 || !etcd.Lives(t, lease) {
		t.Error("the key of who lives is gone")
	}
}

// TestLeaderNoticesThatHeWasDeposed: his term ends, though his lease lives; and when two do not
// hear each other, they do not depose each other again and again.
func TestLeaderNoticesThatHeWasDeposed(t *testing.T) {
	t.Parallel()
	etcd, all := etcdtest.Start(t), &crowd{}
	deaf := func(string) bool { return true }
	one, other := all.member(), all.member()
	one.blind, other.blind = deaf, deaf
	a := campaign(t, open(t, store.Config{Servers: etcd.Endpoints()}), one)
	waitFor(t, a.elected)
	b := campaign(t, open(t, store.Config{Servers: etcd.Endpoints()}), other)
	waitFor(t, b.elected)
	waitFor(t, b.deposed)
	began := time.Now() // Not later than its term ends.
	waitFor(t, a.ended)
	for len(one.looks) > 0 {
		<-one.looks
	}
	// It is a candidate again, and looks for the other no sooner than a lease lasts.
	waitFor(t, one.looks)
	if after := time.Since(began); after < 8*time.Second {
		t.Errorf("who was deposed looks for the other after %v", after)
	}
	waitFor(t, a.elected)
	waitFor(t, b.ended)
}

// TestSeveralCandidates: of several who wait, the next in line leads after a death, and nobody
// else is deposed.
func TestSeveralCandidates(t *testing.T) {
	t.Parallel()
	etcd, all := etcdtest.Start(t), &crowd{}
	lease := etcd.Dead(t, elections, "dead")
	elected := make(chan int, 10)
	var runners []*runner
	for i := range 3 {
		r := campaign(t, open(t, store.Config{Servers: etcd.Endpoints()}), all.member())
		runners = append(runners, r)
		go func() {
			<-r.elected
			elected <- i
		}()
	}
	first := waitFor(t, elected)
	if !etcd.Lives(t, lease) {
		t.Error("the lease of the dead has run out")
	}
	runners[first].stop() // who resigns does so as always
	second := waitFor(t, elected)
	runners[second].stop()
	runners[waitFor(t, elected)].stop()
	deposed := 0
	for _, r := range runners {
		deposed += len(r.deposed)
	}
	if deposed != 1 {
		t.Errorf("%d were deposed", deposed)
	}
}
