package election_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/garboard/garboard/services/apiserver/internal/storage/election"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// elections is the prefix of the keys of the election "test", below the prefix.
const elections = "/garboard/election/registry/test"

// crowd is the set of present candidates, for processes that look through its members.
type crowd struct {
	mu   sync.Mutex
	here map[string]bool
}

// member is one process's view of the crowd.
type member struct {
	crowd *crowd
	// blind, if set, decides which candidates the member takes for gone, whether they are or not.
	blind func(candidate string) bool
	looks chan string // receives the candidate of each look
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns one process's view of the elections.
func open(t *testing.T, server *etcdtest.Server, options ...grpc.DialOption) *election.Elections {
	t.Helper()
	connection, err := etcd.Connect(etcd.Config{
		Servers: server.Endpoints(), Prefix: "/registry/", Logger: slog.New(slog.DiscardHandler), DialOptions: options,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
	})
	return election.New(connection.Client, "/registry/", slog.New(slog.DiscardHandler))
}

// runner is a process that campaigns.
type runner struct {
	elected, ended chan struct{}
	deposed        chan struct{} // receives a value for each leader that the process deposed
	stop           func()
}

func campaign(t *testing.T, s *election.Elections, presence election.Presence) *runner {
	t.Helper()
	r := &runner{elected: make(chan struct{}, 100), ended: make(chan struct{}, 100), deposed: make(chan struct{}, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		e := election.Election{Name: "test", Presence: presence, Deposed: func() { r.deposed <- struct{}{} }}
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

// TestDeadLeadersAreDeposed checks that a candidate is elected although killed leaders keep their
// keys and leases, however many of them are in line.
func TestDeadLeadersAreDeposed(t *testing.T) {
	t.Parallel()
	server, g, all := etcdtest.Start(t), &etcdtest.Guard{}, &crowd{}
	first, second := server.Dead(t, elections, "dead_1"), server.Dead(t, elections, "dead_2")
	s := open(t, server, grpc.WithChainUnaryInterceptor(g.Intercept))
	r := campaign(t, s, all.member())
	waitFor(t, r.elected)
	if !server.Lives(t, first) || !server.Lives(t, second) {
		t.Error("a lease of a dead leader has expired: that may be why another was elected")
	}
	for range 2 {
		waitFor(t, r.deposed)
	}
	if keys := server.Values(t, elections); len(keys) != 1 {
		t.Errorf("the election has the keys %v", keys)
	}
	r.stop()
	g.Check(t, 3)
}

// TestTheLivingAreNotDeposed checks that no leader is deposed that is there, or was at one of two
// looks.
func TestTheLivingAreNotDeposed(t *testing.T) {
	t.Parallel()
	server, all := etcdtest.Start(t), &crowd{}
	lease := server.Dead(t, elections, "living")
	for name, gone := range map[string]func(look int) bool{
		"there":           func(int) bool { return false },
		"there at times":  func(look int) bool { return look%2 == 0 },
		"often not there": func(look int) bool { return look%2 == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s, m := open(t, server), all.member()
			look := -1
			m.blind = func(string) bool { look++; return gone(look) }
			r := campaign(t, s, m)
			defer r.stop()
			for range 6 {
				if candidate := waitFor(t, m.looks); candidate != "living" {
					t.Fatalf("the candidate looks for %s", candidate)
				}
			}
			select {
			case <-r.elected:
				t.Error("another was elected")
			case <-r.deposed:
				t.Error("the living leader was deposed")
			default:
			}
		})
	}
	if len(server.Values(t, elections)) != 1 || !server.Lives(t, lease) {
		t.Error("the key of the living leader is gone")
	}
}

// TestLeaderNoticesThatItWasDeposed checks that the term of a deposed leader ends although its
// lease lives. Two processes that do not hear each other must not depose each other again and
// again.
func TestLeaderNoticesThatItWasDeposed(t *testing.T) {
	t.Parallel()
	server, all := etcdtest.Start(t), &crowd{}
	deaf := func(string) bool { return true }
	one, other := all.member(), all.member()
	one.blind, other.blind = deaf, deaf
	a := campaign(t, open(t, server), one)
	waitFor(t, a.elected)
	b := campaign(t, open(t, server), other)
	waitFor(t, b.elected)
	waitFor(t, b.deposed)
	began := time.Now() // not later than the end of its term
	waitFor(t, a.ended)
	for len(one.looks) > 0 {
		<-one.looks
	}
	// The process is a candidate again, and does not look for the other one before the duration of
	// a lease has passed.
	waitFor(t, one.looks)
	if after := time.Since(began); after < 8*time.Second {
		t.Errorf("the deposed process looks for the other after %v", after)
	}
	waitFor(t, a.elected)
	waitFor(t, b.ended)
}

// TestSeveralCandidates checks that after a death the next of several candidates leads, and no
// other process is deposed.
func TestSeveralCandidates(t *testing.T) {
	t.Parallel()
	server, all := etcdtest.Start(t), &crowd{}
	lease := server.Dead(t, elections, "dead")
	elected := make(chan int, 10)
	var runners []*runner
	for i := range 3 {
		r := campaign(t, open(t, server), all.member())
		runners = append(runners, r)
		go func() {
			<-r.elected
			elected <- i
		}()
	}
	first := waitFor(t, elected)
	if !server.Lives(t, lease) {
		t.Error("the lease of the dead leader has expired")
	}
	runners[first].stop() // a living leader resigns as usual
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

func TestCampaign(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	a, b := open(t, server), open(t, server)
	var mu sync.Mutex
	leaders := 0
	elected := make(chan string, 10)
	campaign := func(ctx context.Context, s *election.Elections, name string) error {
		return s.Campaign(ctx, election.Election{Name: "test"}, func(ctx context.Context) error {
			mu.Lock()
			leaders++
			if leaders > 1 {
				t.Error("two leaders at once, although etcd is healthy")
			}
			mu.Unlock()
			elected <- name
			<-ctx.Done()
			mu.Lock()
			leaders--
			mu.Unlock()
			return ctx.Err()
		})
	}
	var running sync.WaitGroup
	cancels := map[string]context.CancelFunc{}
	for name, s := range map[string]*election.Elections{"a": a, "b": b} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cancels[name] = cancel
		running.Go(func() {
			if err := campaign(ctx, s, name); err != nil {
				t.Errorf("campaigning: %v", err)
			}
		})
	}
	first := waitFor(t, elected)
	cancels[first]()
	if second := waitFor(t, elected); second == first {
		t.Errorf("%s was elected twice", first)
	}
	cancels["a"]()
	cancels["b"]()
	running.Wait()
}

// TestCandidateEndsWithoutEtcd checks that neither a leader nor a candidate in line waits for etcd when it is
// told to stop.
func TestCandidateEndsWithoutEtcd(t *testing.T) {
	t.Parallel()
	server, all := etcdtest.Start(t), &crowd{}
	leader := campaign(t, open(t, server), all.member())
	waitFor(t, leader.elected)
	waiting := all.member()
	candidate := campaign(t, open(t, server), waiting)
	waitFor(t, waiting.looks)
	server.Stop(t)
	t.Cleanup(func() {
		if t.Failed() {
			server.Restart(t) // Without it, the one that waits would never end.
		}
	})
	ended := make(chan string, 2)
	for name, r := range map[string]*runner{"leader": leader, "candidate": candidate} {
		go func() {
			r.stop()
			ended <- name
		}()
	}
	waitFor(t, ended)
	waitFor(t, ended)
}

// TestLeader checks that other processes learn the name of the process that leads, of that election
// only, and none after it has resigned.
func TestLeader(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	s, other := open(t, server), open(t, server)
	if s.Identity() == other.Identity() {
		t.Fatalf("two processes have the name %q", s.Identity())
	}
	check := func(when, want string) {
		t.Helper()
		if got := other.Leader(t.Context(), "test"); got != want {
			t.Errorf("%s, the leader is %q, want %q", when, got, want)
		}
	}
	check("before the election", "")
	r := campaign(t, s, (&crowd{}).member())
	waitFor(t, r.elected)
	check("after the election", s.Identity())
	if got := other.Leader(t.Context(), "tes"); got != "" {
		t.Errorf("an election whose name begins alike has the leader %q", got)
	}
	r.stop()
	check("after it has resigned", "")
	server.Stop(t)
	check("without etcd", "")
}

func waitFor[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(time.Minute):
		t.Fatal("timed out waiting for a value")
		panic("not reached")
	}
}
