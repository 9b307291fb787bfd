package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// leaseKey is the key of the lease in these tests. No lease of the plane has its name.
const leaseKey = "/registry/leases/shards/shard-7"

// hook sees the transactions of writes, and can act before one of them.
type hook struct {
	mu     sync.Mutex
	seen   []*etcdserverpb.TxnRequest
	before func()
}

func (h *hook) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var before func()
	if txn, ok := req.(*etcdserverpb.TxnRequest); ok && slices.ContainsFunc(txn.Success, writes) {
		h.mu.Lock()
		h.seen = append(h.seen, txn)
		before, h.before = h.before, nil
		h.mu.Unlock()
	}
	if before != nil {
		before()
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func writes(op *etcdserverpb.RequestOp) bool { return op.GetRequestRange() == nil }

// next makes do run right before the next transaction.
func (h *hook) next(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = do
}

// take returns the transactions since its last call.
func (h *hook) take() []*etcdserverpb.TxnRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen
	h.seen = nil
	return seen
}

// hooked returns a store whose transactions a hook sees, and another store on the same etcd.
func hooked(t *testing.T) (s, other *store.Store, h *hook, etcd *etcdtest.Server) {
	t.Helper()
	etcd, h = etcdtest.Start(t), &hook{}
	s = open(t, store.Config{
		Servers: etcd.Endpoints(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(h.intercept)},
	})
	return s, open(t, store.Config{Servers: etcd.Endpoints()}), h, etcd
}

// lead creates the lease with a holder and returns a context with the fence of the term.
func lead(t testing.TB, s *store.Store, holder string) context.Context {
	t.Helper()
	transitions := int32(0)
	made, err := s.Create(t.Context(), scheme.For[*coordinationv1.Lease](table), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shards", Name: "shard-7", UID: "lease-1"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
	})
	if err != nil {
		t.Fatal(err)
	}
	return fence.With(t.Context(), fence.Of(made.(*coordinationv1.Lease)), nil)
}

// change writes the lease.
func change(t testing.TB, s *store.Store, how func(*coordinationv1.Lease)) {
	t.Helper()
	_, err := s.Update(context.WithoutCancel(t.Context()), scheme.For[*coordinationv1.Lease](table), "shards", "shard-7", func(current scheme.Object) (scheme.Object, error) {
		how(current.(*coordinationv1.Lease))
		return current, nil
	})
	if err != nil {
		t.Errorf("writing the lease: %v", err)
	}
}

// takeOver makes another process the holder of the lease.
func takeOver(t testing.TB, s *store.Store, by string) {
	change(t, s, func(lease *coordinationv1.Lease) {
		transitions := *lease.Spec.LeaseTransitions + 1
		lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &by, &transitions
	})
}

// renew renews the lease for its holder.
func renew(t testing.TB, s *store.Store) {
	now := metav1.NowMicro()
	change(t, s, func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = &now })
}

func setLabel(value string) func(scheme.Object) (scheme.Object, error) {
	return func(o scheme.Object) (scheme.Object, error) {
		o.SetLabels(map[string]string{"x": value})
		return o, nil
	}
}

// fencedWrites returns all ways to write, in an order in which each has something to do.
func fencedWrites(t *testing.T, s *store.Store, etcd *etcdtest.Server) []func(ctx context.Context) error {
	etcd.Put(t, map[string]string{"/registry/configmaps/default/bad": "what is this"})
	kind := scheme.For[*corev1.ConfigMap](table)
	return []func(ctx context.Context) error{
		func(ctx context.Context) error {
			_, err := s.Create(ctx, kind, configMap("default", "a", "1"))
			return err
		},
		func(ctx context.Context) error {
			_, err := s.Create(ctx, scheme.For[*corev1.Event](table), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}})
			return err
		},
		func(ctx context.Context) error {
			_, err := s.Update(ctx, kind, "default", "a", setLabel("y"))
			return err
		},
		func(ctx context.Context) error {
			_, err := s.Delete(ctx, kind, "default", "a", nil)
			return err
		},
		func(ctx context.Context) error {
			_, err := s.DeleteUnreadable(ctx, kind, "default", "bad", false)
			return err
		},
	}
}

// TestEveryFencedWriteComparesTheLease is TestEveryWriteIsGuarded for writes with a fence: each is
// one transaction that compares its own key and the current lease.
func TestEveryFencedWriteComparesTheLease(t *testing.T) {
	s, other, h, etcd := hooked(t)
	ctx := lead(t, other, "one")
	for i, write := range fencedWrites(t, s, etcd) {
		lease, err := other.Get(ctx, scheme.For[*coordinationv1.Lease](table), "shards", "shard-7")
		if err != nil {
			t.Fatal(err)
		}
		revision := revision(t, lease)
		if err := write(ctx); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
		seen := h.take()
		if len(seen) != 1 {
			t.Fatalf("write %d took %d transactions", i, len(seen))
		}
		compared := map[string]int64{}
		for _, c := range seen[0].Compare {
			if c.Target != etcdserverpb.Compare_MOD || c.Result != etcdserverpb.Compare_EQUAL {
				t.Errorf("write %d compares %v", i, c)
			}
			compared[string(c.Key)] = c.GetModRevision()
		}
		if len(seen[0].Success) != 1 || slices.ContainsFunc(seen[0].Failure, writes) {
			t.Errorf("write %d is %v", i, seen[0])
		}
		written := string(seen[0].Success[0].GetRequestPut().GetKey()) + string(seen[0].Success[0].GetRequestDeleteRange().GetKey())
		if _, ok := compared[written]; !ok || len(compared) != 2 || compared[leaseKey] != revision {
			t.Errorf("write %d of %s compares %v; the lease is at %d", i, written, compared, revision)
		}
	}
	// A write without a fence ignores the lease.
	create(t, s, configMap("default", "plain", "1"))
	if seen := h.take(); len(seen) != 1 || len(seen[0].Compare) != 1 {
		t.Errorf("a write without a fence is %v", seen)
	}
}

// refusal checks that err says that a write was not done, and names the holder of the lease.
func refusal(t *testing.T, what, err error, holder string) {
	t.Helper()
	var status apierrors.APIStatus
	if !fence.IsLost(err) || !errors.As(err, &status) || status.Status().Code != 409 {
		t.Errorf("%v: %v, want a refusal", what, err)
		return
	}
	if message := status.Status().Message; !strings.Contains(message, holder) || !strings.Contains(message, "was not done") {
		t.Errorf("%v: the refusal is %s", what, message)
	}
}

// TestLeaseChangesHands takes the lease away at the worst moments: before a write, before a write
// by a store that already knows, and between the last read of the lease and the transaction.
func TestLeaseChangesHands(t *testing.T) {
	for _, moment := range []string{"before", "in between"} {
		t.Run(moment, func(t *testing.T) {
			s, other, h, etcd := hooked(t)
			ctx := lead(t, other, "one")
			for i, write := range fencedWrites(t, s, etcd) {
				what := fmt.Errorf("write %d", i)
				var before map[string]string
				lose := func() {
					takeOver(t, other, "two")
					before = etcd.Values(t, "/")
				}
				if moment == "before" {
					lose()
				} else {
					h.next(lose)
				}
				err := write(ctx)
				refusal(t, what, err, `"two" holds it now`)
				refusal(t, what, write(ctx), `"two" holds it now`) // again, now that the store knows
				if after := etcd.Values(t, "/"); !maps.Equal(before, after) {
					t.Errorf("%v changed etcd", what)
				}
				change(t, other, func(lease *coordinationv1.Lease) {
					one, transitions := "one", int32(0)
					lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &one, &transitions
				})
				// The leader's own write succeeds, so that the next one has something to do.
				if err := write(ctx); err != nil {
					t.Errorf("%v of the leader: %v", what, err)
				}
			}
		})
	}
}

// TestOtherTerms checks that any other term than the fence's is refused.
func TestOtherTerms(t *testing.T) {
	s, other, _, _ := hooked(t)
	ctx := lead(t, other, "one")
	kind := scheme.For[*corev1.ConfigMap](table)
	if _, err := s.Create(ctx, kind, configMap("default", "a", "1")); err != nil {
		t.Fatal(err)
	}
	update := func() error {
		_, err := s.Update(ctx, kind, "default", "a", setLabel(metav1.NowMicro().String()))
		return err
	}
	takeOver(t, other, "one")
	refusal(t, errors.New("a later term of the same holder"), update(), "in another term now")
	change(t, other, func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = nil })
	refusal(t, errors.New("a lease that was given up"), update(), "no one holds it")
	leases := scheme.For[*coordinationv1.Lease](table)
	if _, err := other.Delete(t.Context(), leases, "shards", "shard-7", nil); err != nil {
		t.Fatal(err)
	}
	refusal(t, errors.New("a lease that is gone"), update(), "is gone")
	one, transitions := "one", int32(0)
	create(t, other, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shards", Name: "shard-7", UID: "lease-2"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &one, LeaseTransitions: &transitions},
	})
	refusal(t, errors.New("another lease of that name"), update(), "another of its name")
	ctx = fence.With(t.Context(), fence.Fence{Namespace: "..", Name: "x", UID: "u", Holder: "h"}, nil)
	if err := update(); !apierrors.IsBadRequest(err) {
		t.Errorf("a lease with an impossible name: %v", err)
	}
}

// TestRenewalInBetween renews the lease right before the transaction of each write: the write is
// retried and happens once. If another writer was faster too, the retry starts from the current
// object.
func TestRenewalInBetween(t *testing.T) {
	s, other, h, _ := hooked(t)
	ctx := lead(t, other, "one")
	kind := scheme.For[*corev1.ConfigMap](table)
	h.next(func() { renew(t, other) })
	if _, err := s.Create(ctx, kind, configMap("default", "a", "1")); err != nil {
		t.Fatal(err)
	}
	if seen := h.take(); len(seen) != 2 {
		t.Errorf("the creation took %d transactions", len(seen))
	}
	h.next(func() { renew(t, other) })
	if _, err := s.Create(ctx, kind, configMap("default", "a", "1")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating an existing object: %v", err)
	}
	calls := 0
	h.next(func() {
		renew(t, other)
		if _, err := other.Update(t.Context(), kind, "default", "a", setLabel("other")); err != nil {
			t.Error(err)
		}
	})
	updated, err := s.Update(ctx, kind, "default", "a", func(o scheme.Object) (scheme.Object, error) {
		calls++
		o.SetAnnotations(map[string]string{"seen": o.GetLabels()["x"]})
		return o, nil
	})
	if err != nil || calls != 2 || updated.GetAnnotations()["seen"] != "other" {
		t.Errorf("%v, %v after %d calls", updated, err, calls)
	}
	h.next(func() {
		renew(t, other)
		if _, err := other.Delete(t.Context(), kind, "default", "a", nil); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Delete(ctx, kind, "default", "a", nil); !apierrors.IsNotFound(err) {
		t.Errorf("deleting a deleted object: %v", err)
	}
}

// TestRenewalHere renews the lease through the store that the holder writes through: no write has
// to be retried.
func TestRenewalHere(t *testing.T) {
	s, _, h, _ := hooked(t)
	ctx := lead(t, s, "one")
	kind := scheme.For[*corev1.ConfigMap](table)
	for i := range 3 {
		h.take()
		if _, err := s.Create(ctx, kind, configMap("default", fmt.Sprint("m", i), "1")); err != nil {
			t.Fatal(err)
		}
		if seen := h.take(); len(seen) != 1 {
			t.Errorf("write %d took %d transactions", i, len(seen))
		}
		renew(t, s)
	}
	takeOver(t, s, "two")
	_, err := s.Update(ctx, kind, "default", "m0", setLabel("y"))
	refusal(t, errors.New("an update"), err, `"two" holds it now`)
}

// TestRenewalsNeverRefuseTheLeader writes concurrently while the lease is renewed all the time.
func TestRenewalsNeverRefuseTheLeader(t *testing.T) {
	s, other, _, _ := hooked(t)
	ctx := lead(t, other, "one")
	kind := scheme.For[*corev1.ConfigMap](table)
	var done atomic.Bool
	var renewals int
	var renewing, writing sync.WaitGroup
	renewing.Go(func() {
		for ; !done.Load(); renewals++ {
			renew(t, other)
		}
	})
	for writer := range 8 {
		writing.Go(func() {
			name := fmt.Sprint("m", writer)
			for i := range 25 {
				if _, err := s.Create(ctx, kind, configMap("default", name, "1")); err != nil {
					t.Errorf("creation %d: %v", i, err)
				}
				if _, err := s.Update(ctx, kind, "default", name, setLabel("y")); err != nil {
					t.Errorf("update %d: %v", i, err)
				}
				if _, err := s.Delete(ctx, kind, "default", name, nil); err != nil {
					t.Errorf("deletion %d: %v", i, err)
				}
			}
		})
	}
	writing.Wait()
	done.Store(true)
	renewing.Wait()
	if renewals < 10 {
		t.Errorf("only %d renewals", renewals)
	}
}

// TestCheckFence covers the check that a dry run makes.
func TestCheckFence(t *testing.T) {
	s, other, _, _ := hooked(t)
	if err := s.CheckFence(t.Context(), true); err != nil {
		t.Errorf("no fence: %v", err)
	}
	ctx := lead(t, other, "one")
	for _, now := range []bool{false, true} {
		if err := s.CheckFence(ctx, now); err != nil {
			t.Errorf("the holder: %v", err)
		}
	}
	takeOver(t, other, "two")
	if err := s.CheckFence(ctx, false); err != nil {
		t.Errorf("a sighting was not enough: %v", err)
	}
	refusal(t, errors.New("a look now"), s.CheckFence(ctx, true), `"two" holds it now`)
	refusal(t, errors.New("a sighting"), s.CheckFence(ctx, false), `"two" holds it now`)
}

// counted returns the counts of fenced writes by outcome.
func counted(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "garboard_store_fenced_writes_total" {
			continue
		}
		for _, one := range family.GetMetric() {
			for _, label := range one.GetLabel() {
				if label.GetName() == "outcome" {
					counts[label.GetValue()] += one.GetCounter().GetValue()
				}
			}
		}
	}
	return counts
}

// TestLeasesInAnotherEtcd: no transaction spans two etcds, so a write is checked just before, and
// the log says so at the start.
func TestLeasesInAnotherEtcd(t *testing.T) {
	t.Parallel()
	main, apart := etcdtest.Start(t), etcdtest.Start(t)
	for resource, want := range map[string]string{
		"coordination.k8s.io/leases": outcomeChecked, "/configmaps": outcomeChecked, "/events": "fenced",
	} {
		t.Run(resource, func(t *testing.T) {
			var log bytes.Buffer
			registry := prometheus.NewRegistry()
			group, name, _ := strings.Cut(resource, "/")
			s := open(t, store.Config{
				Servers: main.Endpoints(), Prefix: "/" + name, Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Overrides: []store.Override{{Resource: schema.GroupResource{Group: group, Resource: name}, Servers: apart.Endpoints()}},
			})
			if warned := strings.Contains(log.String(), "leases are in another etcd"); warned != (want == outcomeChecked) {
				t.Errorf("the log is %s", log.String())
			}
			ctx := lead(t, s, "one")
			kind := scheme.For[*corev1.ConfigMap](table)
			if _, err := s.Create(ctx, kind, configMap("default", "a", "1")); err != nil {
				t.Errorf("the leader may not write: %v", err)
			}
			takeOver(t, s, "two")
			_, err := s.Update(ctx, kind, "default", "a", setLabel("y"))
			refusal(t, errors.New("an update"), err, `"two" holds it now`)
			if got := counted(t, registry); !maps.Equal(got, map[string]float64{want: 1, "refused": 1}) {
				t.Errorf("counted %v", got)
			}
		})
	}
}

const outcomeChecked = "checked"

// TestSightingsEndWithTheirHistory: in another life of etcd a mod_revision may belong to another
// term.
func TestSightingsEndWithTheirHistory(t *testing.T) {
	s, other, _, _ := hooked(t)
	ctx := lead(t, other, "one")
	see := func() {
		t.Helper()
		if err := s.CheckFence(ctx, true); err != nil || !s.Remembers(leaseKey) {
			t.Fatalf("%v; remembered: %t", err, s.Remembers(leaseKey))
		}
	}
	see()
	history, err := s.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.History(t.Context()); err != nil || !s.Remembers(leaseKey) {
		t.Errorf("%v; remembered in the same history: %t", err, s.Remembers(leaseKey))
	}
	if history, err = s.RenewHistory(t.Context(), history); err != nil || s.Remembers(leaseKey) {
		t.Errorf("%v; remembered after that: %t", err, s.Remembers(leaseKey))
	}
	see()
	// Another process renews the history.
	if _, err = other.RenewHistory(t.Context(), history); err != nil {
		t.Fatal(err)
	}
	if _, err := s.History(t.Context()); err != nil || s.Remembers(leaseKey) {
		t.Errorf("%v; remembered after another process began a history: %t", err, s.Remembers(leaseKey))
	}
}
