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

// fakeStore holds quotas as etcd does: an update that changes nothing leaves the revision.
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
		panic("as asked")
	}
	if s.fails != nil {
		return nil, s.fails
	}
	q := s.quotas[name]
	if q == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("resourcequotas"), name)
	}
	// Kubernetes' guarded update calls again when it lost a race: what counts is the last call.
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
		t.Fatalf("%v, %s are used", err, store.used("q", "pods"))
	}
	undo(t.Context())
	if store.used("q", "pods") != "1" {
		t.Errorf("given back, %s are used", store.used("q", "pods"))
	}
	if err := c.Try([]*corev1.ResourceQuota{podQuota("q", "1", "1")}, podItem()); err == nil {
		t.Error("a trial passed a full quota")
	}
	if store.used("q", "pods") != "1" {
		t.Error("a trial was charged")
	}
	if len(c.queues) != 0 {
		t.Errorf("%d queues are left", len(c.queues))
	}
}

// TestEtcdDecides checks that a quota is judged as it is, not as the cache has it.
func TestEtcdDecides(t *testing.T) {
	c := New(newStore(podQuota("q", "1", "1")).update)
	if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{podQuota("q", "1", "0")}, podItem()); err == nil {
		t.Error("a full quota that looks empty in the cache was passed")
	}
	c = New(newStore(podQuota("q", "1", "0")).update)
	if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{podQuota("q", "1", "1")}, podItem()); err != nil {
		t.Errorf("an empty quota that looks full in the cache: %v", err)
	}
	c = New(newStore().update)
	if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{podQuota("q", "1", "1")}, podItem()); err != nil {
		t.Errorf("a quota that is gone: %v", err)
	}
}

func TestAllOrNoneOfTheQuotas(t *testing.T) {
	a, b := podQuota("a", "3", "1"), podQuota("b", "1", "1")
	store := newStore(a.DeepCopy(), b.DeepCopy())
	_, err := New(store.update).Charge(t.Context(), []*corev1.ResourceQuota{b, a}, podItem())
	if err == nil || store.used("a", "pods") != "1" || store.used("b", "pods") != "1" {
		t.Errorf("%v, %s and %s are used", err, store.used("a", "pods"), store.used("b", "pods"))
	}
}

// TestGivingBackIsNeverTooMuch lets another write the quota, who may have counted without
// what is to be given back.
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
	store.write(podQuota("q", "9", "1")) // A controller counts anew.
	first(t.Context())
	if store.used("q", "pods") != "1" {
		t.Errorf("%s are used after giving back what a controller had left out", store.used("q", "pods"))
	}
	second, third := charge(), charge()
	first(t.Context())
	if store.used("q", "pods") != "3" {
		t.Errorf("%s are used; what was charged before the controller counted was given back", store.used("q", "pods"))
	}
	second(t.Context())
	third(t.Context())
	if store.used("q", "pods") != "1" {
		t.Errorf("%s are used after giving back an unbroken row of charges", store.used("q", "pods"))
	}
}

// TestThoseWhoWaitShareAnUpdate has an update take a second, and many wait for it.
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
			t.Errorf("%d were allowed, %s are used", allowed, store.used("q", "pods"))
		}
		if store.updates > 2 {
			t.Errorf("it took %d updates", store.updates)
		}
	})
}

// TestThoseWhoGo has clients go while their quota is updated: those in the queue, the one who
// would be next among them, and the one who updates for all.
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
		wg.Go(func() { outcomes <- charge(going) }) // It updates; nobody waits for its client, but it goes on.
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
			t.Errorf("%d gave up, the last got %v, %s are used", timeouts, last, store.used("q", "pods"))
		}
		if len(c.queues) != 0 {
			t.Errorf("%d queues are left", len(c.queues))
		}
	})
}

func TestAnUpdateThatFails(t *testing.T) {
	q := podQuota("q", "10", "0")
	store := newStore(q.DeepCopy())
	store.fails = errors.New("etcd is away")
	c := New(store.update)
	if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{q}, podItem()); !errors.Is(err, store.fails) {
		t.Errorf("got %v", err)
	}
	store.fails, store.takes = nil, 2*commitTimeout
	synctest.Test(t, func(t *testing.T) {
		if _, err := c.Charge(t.Context(), []*corev1.ResourceQuota{q}, podItem()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an update that does not end: %v", err)
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
		t.Error("a panic allowed those who waited")
	}
}

// TestWhoGoesPassesItsTurnOn has a waiter go just when it is to update for the others.
func TestWhoGoesPassesItsTurnOn(t *testing.T) {
	c := New(newStore().update)
	key := types.NamespacedName{Namespace: "ns", Name: "q"}
	a, b := newWaiter(), newWaiter()
	q := &queue{waiting: []*waiter{a, b}, busy: true}
	c.queues[key] = q
	close(a.turn)
	if !c.withdraw(key, q, a) {
		t.Fatal("it could not go")
	}
	select {
	case <-b.turn:
	default:
		t.Error("nobody updates for those who are left")
	}
	if !c.withdraw(key, q, b) || len(c.queues) != 0 {
		t.Errorf("the last one left a queue: %v", c.queues)
	}
}
