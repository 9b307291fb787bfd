package election_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// arena is a lease with candidates, and the present leaders.
type arena struct {
	api *fake.Client
	mu  sync.Mutex
	// leaders are the candidates whose lead function is running.
	leaders map[string]bool
	most    int
}

func newArena() *arena {
	return &arena{api: fake.New(scheme.New()), leaders: map[string]bool{}}
}

// cut is an API client whose calls fail while it is broken.
type cut struct {
	client.Interface
	mu     sync.Mutex
	broken bool
}

func (c *cut) set(broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = broken
}

func (c *cut) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	c.mu.Lock()
	broken := c.broken
	c.mu.Unlock()
	if broken {
		return errors.New("no route to the apiserver")
	}
	return c.Interface.Do(ctx, call, into)
}

func (a *arena) config(api client.Interface, identity string) election.Config {
	return election.Config{
		Client: api, Namespace: "kube-system", Name: "test", Identity: identity,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// candidate runs a candidate until the returned function is called, which returns Run's error.
func (a *arena) candidate(t *testing.T, api client.Interface, identity string) (end func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- election.Run(ctx, a.config(api, identity), a.lead(identity)) }()
	var once sync.Once
	var err error
	end = func() error {
		once.Do(func() {
			cancel()
			err = <-ended
		})
		return err
	}
	t.Cleanup(func() { _ = end() })
	return end
}

func (a *arena) lead(identity string) func(context.Context) error {
	return func(ctx context.Context) error {
		a.mu.Lock()
		a.leaders[identity] = true
		a.most = max(a.most, len(a.leaders))
		a.mu.Unlock()
		<-ctx.Done()
		a.mu.Lock()
		delete(a.leaders, identity)
		a.mu.Unlock()
		return ctx.Err()
	}
}

// leader returns the present leader, if there is one.
func (a *arena) leader() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for name := range a.leaders {
		names = append(names, name)
	}
	return strings.Join(names, "+")
}

func (a *arena) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := client.Of[*coordinationv1.Lease](a.api).Get(t.Context(), "kube-system", "test", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		end := a.candidate(t, a.api, "one")
		if a.leader() != "one" {
			t.Fatalf("%q leads", a.leader())
		}
		a.candidate(t, a.api, "two")
		time.Sleep(10 * time.Minute)
		if a.leader() != "one" {
			t.Fatalf("%q leads while one renews", a.leader())
		}
		lease := a.lease(t)
		if *lease.Spec.HolderIdentity != "one" || *lease.Spec.LeaseDurationSeconds != 15 || *lease.Spec.LeaseTransitions != 0 {
			t.Errorf("the lease is %+v", lease.Spec)
		}
		if err := end(); err != nil {
			t.Errorf("Run ended with %v", err)
		}
		time.Sleep(5 * time.Second) // The lease was released: no need to wait for its expiry.
		if a.leader() != "two" {
			t.Errorf("%q leads after the release", a.leader())
		}
		if n := *a.lease(t).Spec.LeaseTransitions; n != 1 {
			t.Errorf("%d transitions, want 1", n)
		}
		if a.most != 1 {
			t.Errorf("%d candidates led at the same time", a.most)
		}
	})
}

// TestLeaderIsCutOff checks that a leader that is cut off stops leading before another starts.
func TestLeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		link := &cut{Interface: a.api}
		a.candidate(t, link, "one")
		synctest.Wait()
		a.candidate(t, a.api, "two")
		time.Sleep(time.Minute)
		link.set(true)
		time.Sleep(12100 * time.Millisecond) // A retry period and the renew deadline.
		if leader := a.leader(); leader != "" {
			t.Errorf("%q leads after the renew deadline", leader)
		}
		time.Sleep(15 * time.Second)
		if leader := a.leader(); leader != "two" {
			t.Errorf("%q leads after the lease expired", leader)
		}
		link.set(false)
		time.Sleep(time.Minute)
		if leader := a.leader(); leader != "two" || a.most != 1 {
			t.Errorf("%q leads after the link is back; %d led at the same time", leader, a.most)
		}
	})
}

// TestLeaderSurvivesAShortCut checks that a short interruption changes nothing.
func TestLeaderSurvivesAShortCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		link := &cut{Interface: a.api}
		a.candidate(t, link, "one")
		time.Sleep(time.Minute)
		for range 10 {
			link.set(true)
			time.Sleep(7 * time.Second)
			link.set(false)
			time.Sleep(7 * time.Second)
			if leader := a.leader(); leader != "one" {
				t.Fatalf("%q leads", leader)
			}
		}
	})
}

// TestExpiryIsByTheObserversClock checks that a candidate ignores the times inside the record, and
// waits by its own clock for a whole lease duration after the record changed.
func TestExpiryIsByTheObserversClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, stamp := range map[string]time.Duration{"in the past": -24 * time.Hour, "in the future": 24 * time.Hour} {
			a := newArena()
			holder, seconds, at := "gone", int32(30), metav1.NewMicroTime(time.Now().Add(stamp))
			a.api.Load(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "test"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at, AcquireTime: &at},
			})
			end := a.candidate(t, a.api, "one")
			time.Sleep(29 * time.Second)
			if leader := a.leader(); leader != "" {
				t.Errorf("renewed %s: %q leads before the term is over", name, leader)
			}
			time.Sleep(6 * time.Second)
			if leader := a.leader(); leader != "one" {
				t.Errorf("renewed %s: %q leads after the term", name, leader)
			}
			_ = end()
		}
	})
}

// TestLeaseIsTaken checks that the leader stops at once when another candidate takes a lease that
// has not expired.
func TestLeaseIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		a.candidate(t, a.api, "one")
		time.Sleep(61 * time.Second) // Between two renewals.
		lease, thief := a.lease(t), "thief"
		lease.Spec.HolderIdentity = &thief
		if _, err := client.Of[*coordinationv1.Lease](a.api).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if leader := a.leader(); leader != "" {
			t.Errorf("%q leads", leader)
		}
		time.Sleep(20 * time.Second)
		if leader := a.leader(); leader != "one" {
			t.Errorf("%q leads after the other's term", leader)
		}
	})
}

func TestLeadReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		failure := errors.New("cannot lead")
		err := election.Run(t.Context(), a.config(a.api, "one"), func(context.Context) error { return failure })
		if !errors.Is(err, failure) {
			t.Errorf("Run returned %v", err)
		}
		err = election.Run(t.Context(), a.config(a.api, "one"), func(context.Context) error { panic("no") })
		if err == nil || !strings.Contains(err.Error(), "panic: no") {
			t.Errorf("Run returned %v after a panic", err)
		}
		if holder := a.lease(t).Spec.HolderIdentity; holder != nil {
			t.Errorf("the lease is still held by %q", *holder)
		}
	})
}

// TestConfig checks the validation of the configuration (item I141 of the checklist).
func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*election.Config)
		want   string
	}{
		{"no client", func(c *election.Config) { c.Client = nil }, "no client"},
		{"no name", func(c *election.Config) { c.Name = "" }, "no name"},
		{"no identity", func(c *election.Config) { c.Identity = "" }, "no identity"},
		{"deadline", func(c *election.Config) { c.RenewDeadline = 15 * time.Second }, "is not above the renew deadline"},
		{"retry", func(c *election.Config) { c.RetryPeriod = 9 * time.Second }, "times the retry period"},
		{"too short", func(c *election.Config) { c.LeaseDuration = time.Millisecond }, "below one second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newArena()
			cfg := a.config(a.api, "one")
			tt.change(&cfg)
			err := election.Run(t.Context(), cfg, a.lead("one"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run returned %v, want %q", err, tt.want)
			}
		})
	}
}

// TestCatchUp checks that a term begins by catching up to a revision later than the previous
// leader's writes. A catch-up that fails, panics or takes too long does not prevent the term.
func TestCatchUp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		catchUp func(ctx context.Context) error
		after   time.Duration
	}{
		{"at once", func(context.Context) error { return nil }, 0},
		{"a while", func(ctx context.Context) error {
			select {
			case <-time.After(4 * time.Second):
			case <-ctx.Done():
			}
			return ctx.Err()
		}, 4 * time.Second},
		{"too long", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 10 * time.Second},
		{"a failure", func(context.Context) error { return errors.New("no") }, 0},
		{"a panic", func(context.Context) error { panic("no") }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArena()
				end := a.candidate(t, a.api, "before")
				a.leader()
				maps := client.Of[*corev1.ConfigMap](a.api)
				if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "written"}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				written := a.api.Revision()
				if err := end(); err != nil {
					t.Fatal(err)
				}
				cfg := a.config(a.api, "after")
				var asked int64
				cfg.CatchUp = func(ctx context.Context, revision int64) error {
					asked = revision
					return tt.catchUp(ctx)
				}
				ctx, cancel := context.WithCancel(t.Context())
				begin, began := time.Now(), make(chan time.Duration, 1)
				ended := make(chan error, 1)
				go func() {
					ended <- election.Run(ctx, cfg, func(ctx context.Context) error {
						began <- time.Since(begin)
						<-ctx.Done()
						return nil
					})
				}()
				if took := <-began; took != tt.after {
					t.Errorf("the term began after %v, want %v", took, tt.after)
				}
				if asked <= written || asked > a.api.Revision() {
					t.Errorf("caught up to %d, but the previous leader wrote at %d", asked, written)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCatchUpEndsWithTheTerm checks that a term that ends while it catches up never leads.
func TestCatchUpEndsWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArena()
		cfg := a.config(a.api, "one")
		waiting := make(chan struct{})
		cfg.CatchUp = func(ctx context.Context, _ int64) error {
			close(waiting)
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- election.Run(ctx, cfg, func(ctx context.Context) error {
				if ctx.Err() == nil {
					t.Error("led after the end of the term")
				}
				return ctx.Err()
			})
		}()
		<-waiting
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
