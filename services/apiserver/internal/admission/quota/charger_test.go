package quota

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
)

// fakeStore stores quotas as etcd does: an update that changes nothing keeps the revision.
type fakeStore struct {
	mu       sync.Mutex
	quotas   map[string]*corev1.ResourceQuota
	revision int
	updates  int
	takes    time.Duration // how long an update takes
	fails    error
	panics   bool
}

func newStore(quotas ...*corev1.ResourceQuota) *fakeStore {
	s := &fakeStore{quotas: map[string]*corev1.ResourceQuota{}}
	for _, q := range quotas {
		s.write(q)
	}
	return s
}

func (s *fakeStore) write(q *corev1.ResourceQuota) {
	s.revision++
	q.ResourceVersion = strconv.Itoa(s.revision)
	s.quotas[q.Name] = q
}

func (s *fakeStore) update(ctx context.Context, _, name string, change func(*corev1.ResourceQuota) (*corev1.ResourceQuota, error)) (*corev1.ResourceQuota, error) {
	if s.takes > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(s.takes):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates++
	if s.panics {
		panic("requested by the test")
	}
	if s.fails != nil {
		return nil, s.fails
	}
	q := s.quotas[name]
	if q == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("resourcequotas"), name)
	}
	// Kubernetes' guarded update calls change again when it lost a race; the last call counts.
	if _, err := change(q.DeepCopy()); err != nil {
		return nil, err
	}
	changed, err := change(q.DeepCopy())
	if err != nil {
		return nil, err
	}
	if !cmp.Equal(changed.Status.Used, q.Status.Used) {
		s.write(changed)
	}
	return s.quotas[name].DeepCopy(), nil
}

func (s *fakeStore) used(name, resource string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := s.quotas[name].Status.Used[corev1.ResourceName(resource)]
	return value.String()
}

func podQuota(name, hard, used string) *corev1.ResourceQuota {
	q := newQuota(amounts("pods", hard), amounts("pods", used))
	q.Name = name
	return q
}

func podItem() Item {
	return Item{Kind: scheme.For[*corev1.Pod](scheme.New()), Object: newPod(nil, nil)}
}

func TestChargeAndGiveBack(t *testing.T) {
	q := podQuota("q", "3", "1")
	store := newStore(q.DeepCopy())
	c := New(store.update)
	undo, err := c.Charge(t.Context(), []*corev1.ResourceQuota{q}, podItem())
	if err != nil || store.used("q", "pods") != "2" {
		t.Fatalf("got %v, used %s, want 2", err, store.used("q", "pods"))
	}
	undo(t.Context())
	if store.used("q", "pods") != "1" {
		t.Errorf("after giving back: used %s, want 1", store.used("q", "pods"))
	}
	if err := c.Try([]*corev1.ResourceQuota{podQuota("q", "1", "1")}, podItem()); err == nil {
		t.Error("Try accepted a pod in a full quota")
	}
	if store.used("q", "pods") != "1" {
		t.Error("Try charged the quota")
	}
	if len(c.queues) != 0 {
		t.Errorf("%d queues remain, want 0", len(c.queues))
	}
}

// TestEtcdDecides checks that the quota in etcd decides, not the one in the cache.
func TestEtcdDecides(t *testing.T) {
	c := New(newStore(podQuota("q", "1", "1")).update)
	if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{podQuota("q", "1", "0")}, podItem()); err == nil {
		t.Error("a full quota that is empty in the cache accepted a pod")
	}
	c = New(newStore(podQuota("q", "1", "0")).update)
	if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{podQuota("q", "1", "1")}, podItem()); err != nil {
		t.Errorf("an empty quota that is full in the cache: got %v", err)
	}
	c = New(newStore().update)
	if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{podQuota("q", "1", "1")}, podItem()); err != nil {
		t.Errorf("a deleted quota: got %v", err)
	}
}

func TestAllOrNoneOfTheQuotas(t *testing.T) {
	a, b := podQuota("a", "3", "1"), podQuota("b", "1", "1")
	store := newStore(a.DeepCopy(), b.DeepCopy())
	_, err := New(store.update).Charge(t.Context(), []*corev1.ResourceQuota{b, a}, podItem())
	if err == nil || store.used("a", "pods") != "1" || store.used("b", "pods") != "1" {
		t.Errorf("got %v, used %s and %s, want a refusal and 1 each", err, store.used("a", "pods"), store.used("b", "pods"))
	}
}

// TestGivingBackIsNeverTooMuch lets another writer write the quota, which may have recounted it
// without the item whose charge is given back.
func TestGivingBackIsNeverTooMuch(t *testing.T) {
	q := podQuota("q", "9", "1")
	store := newStore(q.DeepCopy())
	c := New(store.update)
	quotas := []*corev1.ResourceQuota{q}
	charge := func() func(context.Context) {
		undo, err := c.Charge(t.Context(), quotas, podItem())
		if err != nil {
			t.Fatal(err)
		}
		return undo
	}
	first := charge()
	store.write(podQuota("q", "9", "1")) // A controller recounts.
	first(t.Context())
	if store.used("q", "pods") != "1" {
		t.Errorf("used %s after giving back what a controller had left out, want 1", store.used("q", "pods"))
	}
	second, third := charge(), charge()
	first(t.Context())
	if store.used("q", "pods") != "3" {
		t.Errorf("used %s, want 3: a charge from before the controller's count was given back", store.used("q", "pods"))
	}
	second(t.Context())
	third(t.Context())
	if store.used("q", "pods") != "1" {
		t.Errorf("used %s after giving back an unbroken sequence of charges, want 1", store.used("q", "pods"))
	}
}

// TestThoseWhoWaitShareAnUpdate has many requests wait for an update that takes a second.
func TestThoseWhoWaitShareAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := podQuota("q", "10", "0")
		store := newStore(q.DeepCopy())
		store.takes = time.Second
		c := New(store.update)
		var wg sync.WaitGroup
		var mu sync.Mutex
		allowed := 0
		for range 100 {
			wg.Go(func() {
				if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{q}, podItem()); err == nil {
					mu.Lock()
					allowed++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if allowed != 10 || store.used("q", "pods") != "10" {
			t.Errorf("%d were allowed, used %s, want 10 of both", allowed, store.used("q", "pods"))
		}
		if store.updates > 2 {
			t.Errorf("it took %d updates, want at most 2", store.updates)
		}
	})
}

// TestThoseWhoGo cancels clients while their quota is updated: one in the queue, and the one that
// commits for all.
func TestThoseWhoGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := podQuota("q", "10", "0")
		store := newStore(q.DeepCopy())
		store.takes = time.Second
		c := New(store.update)
		charge := func(ctx context.Context) error {
			_, err := c.Charge(ctx, []*corev1.ResourceQuota{q}, podItem())
			return err
		}
		going, cancel := context.WithCancel(t.Context())
		outcomes := make(chan error, 3)
		var wg sync.WaitGroup
		wg.Go(func() { outcomes <- charge(going) }) // It commits; its client goes away, but the commit continues.
		synctest.Wait()
		wg.Go(func() { outcomes <- charge(going) })
		synctest.Wait()
		var last error
		wg.Go(func() { last = charge(t.Context()) })
		synctest.Wait()
		cancel()
		wg.Wait()
		close(outcomes)
		var timeouts int
		for err := range outcomes {
			if apierrors.IsTimeout(err) {
				timeouts++
			} else if err != nil {
				t.Errorf("got %v", err)
			}
		}
		if timeouts != 1 || last != nil || store.used("q", "pods") != "2" {
			t.Errorf("%d gave up, the last got %v, used %s; want 1, no error, 2", timeouts, last, store.used("q", "pods"))
		}
		if len(c.queues) != 0 {
			t.Errorf("%d queues remain, want 0", len(c.queues))
		}
	})
}

func TestAnUpdateThatFails(t *testing.T) {
	q := podQuota("q", "10", "0")
	store := newStore(q.DeepCopy())
	store.fails = errors.New("etcd is away")
	c := New(store.update)
	if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{q}, podItem()); !errors.Is(err, store.fails) {
		t.Errorf("got %v, want the store's error", err)
	}
	store.fails, store.takes = nil, 2*commitTimeout
	synctest.Test(t, func(t *testing.T) {
		if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{q}, podItem()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an update that does not end: got %v, want its deadline", err)
		}
	})
	store.takes, store.panics = 0, true
	w := newWaiter()
	func() {
		defer func() { _ = recover() }()
		c.commit(t.Context(), types.NamespacedName{Namespace: "ns", Name: "q"}, []*waiter{w})
	}()
	<-w.done
	if w.err == nil {
		t.Error("the waiters were allowed after a panic")
	}
}

// TestWhoGoesPassesItsTurnOn withdraws a waiter just when it is its turn to commit for the others.
func TestWhoGoesPassesItsTurnOn(t *testing.T) {
	c := New(newStore().update)
	key := types.NamespacedName{Namespace: "ns", Name: "q"}
	a, b := newWaiter(), newWaiter()
	q := &queue{waiting: []*waiter{a, b}, busy: true}
	c.queues[key] = q
	close(a.turn)
	if !c.withdraw(key, q, a) {
		t.Fatal("the first waiter could not withdraw")
	}
	select {
	case <-b.turn:
	default:
		t.Error("the remaining waiter did not get the turn")
	}
	if !c.withdraw(key, q, b) || len(c.queues) != 0 {
		t.Errorf("the last waiter left a queue: %v", c.queues)
	}
}
