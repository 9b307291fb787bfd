// Package resourcequota recomputes how much of each ResourceQuota is used, and frees what is no
// longer used (kubernetes, pkg/controller/resourcequota). The apiserver itself only charges quotas.
package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "resourcequota-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue   = "resourcequota_primary"
	workers = 5
	// resyncPeriod is how often each quota is recomputed even if nothing happened (Kubernetes,
	// ResourceQuotaSyncPeriod).
	resyncPeriod = 5 * time.Minute
	// patience is how long a quota waits for the caches before it is requeued.
	patience = 10 * time.Second
)

// reconciler reconciles ResourceQuotas.
type reconciler struct {
	source   informer.Source
	quotas   *controller.Objects[*corev1.ResourceQuota]
	pods     informer.SharedInformer[*corev1.Pod]
	services informer.SharedInformer[*corev1.Service]
	claims   informer.SharedInformer[*corev1.PersistentVolumeClaim]
	table    *scheme.Table
	logger   *slog.Logger

	// What follows is of one term.
	queue     controller.Queue
	followers *followers

	mu      sync.Mutex
	ledgers map[string]*ledger
	caches  map[*scheme.Kind]cache
	// ends are the ends of the caches of kinds that are only counted.
	ends map[*scheme.Kind]context.CancelFunc
}

// New declares the quota controller. Kinds whose objects are only counted are followed through source, from
// the moment that a quota names them.
func New(d controller.Deps, source informer.Source) *controller.Spec {
	r := &reconciler{
		source: source, quotas: controller.For[*corev1.ResourceQuota](d), table: d.Client.Table(), logger: d.Logger,
		pods:     informer.For[*corev1.Pod](d.Informers),
		services: informer.For[*corev1.Service](d.Informers),
		claims:   informer.For[*corev1.PersistentVolumeClaim](d.Informers),
	}
	r.quotas.Handle = r.quotaChanged
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "resourcequotas", Workers: workers, Begin: r.begin, For: r.quotas, SharedWrites: true,
		Watches: []controller.Watch{watch(r, r.pods), watch(r, r.services), watch(r, r.claims)}, Reconcile: r.reconcile,
		Also: []func(context.Context) error{
			r.followKinds, func(ctx context.Context) error { return r.followers.run(ctx) },
		},
	}
}

// begin forgets what was kept in the term before.
func (r *reconciler) begin(q controller.Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue, r.followers, r.ledgers = q, &followers{}, map[string]*ledger{}
	r.ends = map[*scheme.Kind]context.CancelFunc{}
	r.caches = map[*scheme.Kind]cache{
		scheme.For[*corev1.Pod](r.table):                   informed[*corev1.Pod]{r.pods},
		scheme.For[*corev1.Service](r.table):               informed[*corev1.Service]{r.services},
		scheme.For[*corev1.PersistentVolumeClaim](r.table): informed[*corev1.PersistentVolumeClaim]{r.claims},
	}
}

// ledger returns a quota's ledger, creating it if necessary.
func (r *reconciler) ledger(q *corev1.ResourceQuota) *ledger {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := informer.Key(q)
	found := r.ledgers[key]
	if found == nil || found.quota != q.UID {
		found = &ledger{quota: q.UID}
		r.ledgers[key] = found
	}
	return found
}

func (r *reconciler) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ledgers, key)
}

// cache returns the cache of a kind. A kind that is only counted is followed from now on.
func (r *reconciler) cache(kind *scheme.Kind) cache {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.caches[kind]; found != nil {
		return found
	}
	made := newCounted(r.source, kind, r.gone)
	ended, end := context.WithCancel(context.Background())
	r.caches[kind], r.ends[kind] = made, end
	r.followers.start(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ended, cancel)()
		if err := made.follower.Run(ctx); err != nil {
			return fmt.Errorf("following %s: %w", kind.GroupResource(), err)
		}
		return nil
	})
	return made
}

// tally is a count for a quota.
type tally struct {
	quota  *corev1.ResourceQuota
	ledger *ledger
	// shown is the revision up to which the quota shows what was charged.
	shown   int64
	counts  corev1.ResourceList
	objects []object
	// at is when the count was taken; settled says that it shows everything written up to then.
	at      time.Time
	settled bool
}

// tally counts for a quota; it returns nil if there is no such quota.
func (r *reconciler) tally(ctx context.Context, key controller.Key) (*tally, error) {
	t := &tally{shown: r.quotas.Revision(), at: time.Now()}
	var found bool
	if t.quota, found = r.quotas.Get(key); !found {
		return nil, nil
	}
	t.ledger = r.ledger(t.quota)
	revision, err := strconv.ParseInt(t.quota.ResourceVersion, 10, 64)
	if err != nil {
		return nil, reconcile.TerminalError(fmt.Errorf("reading the resourceVersion of ResourceQuota %s: %w", key, err))
	}
	due := t.ledger.due()
	if t.settled = !due.IsZero() && !due.After(t.at); t.settled {
		// What may be dropped was charged long ago. A cache proves that its object does not exist
		// only if the cache shows everything written since.
		if revision, err = r.present(ctx, t.quota.Namespace); err != nil {
			return nil, err
		}
	}
	if t.counts, t.objects, err = r.count(ctx, t.quota, revision); err != nil {
		return nil, fmt.Errorf("computing the usage of ResourceQuota %s: %w", key, err)
	}
	return t, nil
}

// late waits for the cache of quotas if it does not yet show the charges for counted objects, and
// reports whether it had to.
func (r *reconciler) late(ctx context.Context, t *tally) (bool, error) {
	needed := t.ledger.needs(t.objects)
	if needed <= t.shown {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.quotas.WaitForRevision(ctx, needed); err != nil {
		return false, fmt.Errorf("waiting for the quota to show recent charges: %w", err)
	}
	return true, nil
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	t, err := r.tally(ctx, key)
	if t != nil && err == nil {
		var late bool
		if late, err = r.late(ctx, t); late {
			// Only once: if still more arrives, it is left to the next reconcile.
			t, err = r.tally(ctx, key)
		}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if t == nil {
		r.forget(key.String())
		return reconcile.Result{}, nil
	}
	q, ledger := t.quota, t.ledger
	used := newUsed(q, t.counts, ledger.balance(mask(q.Status.Used, q.Spec.Hard), t.counts, t.objects, t.shown, t.at, t.settled))
	if err := r.write(ctx, q, used, ledger); err != nil {
		return reconcile.Result{}, err
	}
	again := resyncPeriod
	if due := ledger.due(); !due.IsZero() {
		again = min(again, max(time.Until(due), time.Second))
	}
	if !equality.Semantic.DeepEqual(q.Status.Hard, q.Spec.Hard) {
		// Until now nothing was charged for the new limits of the quota; objects created meanwhile
		// were not counted either.
		again = min(again, settleTime)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// present returns etcd's revision at some time after the call.
func (r *reconciler) present(ctx context.Context, namespace string) (int64, error) {
	_, version, err := r.quotas.Client.List(ctx, namespace, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading the current revision: %w", err)
	}
	revision, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing the current revision: %w", err)
	}
	return revision, nil
}

// count sums, from caches at revision or later, what the objects in a quota's scopes use of the
// limited resources, and lists those objects.
func (r *reconciler) count(ctx context.Context, q *corev1.ResourceQuota, revision int64) (corev1.ResourceList, []object, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sums := corev1.ResourceList{}
	var objects []object
	for _, kind := range r.limited(q) {
		for _, name := range quota.Covered(kind, q.Spec.Hard) {
			sums[name] = zero()
		}
		cache := r.cache(kind)
		if err := cache.waitFor(ctx, revision); err != nil {
			return nil, nil, err
		}
		found, err := cache.in(q.Namespace)
		if err != nil {
			return nil, nil, err
		}
		for _, obj := range found {
			counted := chargedObject(q, kind, obj)
			if counted.charged == nil {
				continue
			}
			add(sums, usageIn(q, kind, obj))
			objects = append(objects, counted)
		}
	}
	return sums, objects, nil
}

// limited returns the kinds whose objects use something that a quota limits.
func (r *reconciler) limited(q *corev1.ResourceQuota) []*scheme.Kind {
	var kinds []*scheme.Kind
	for _, kind := range customkinds.Readable(r.table.Kinds()) {
		if len(quota.Covered(kind, q.Spec.Hard)) > 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// write writes a status that differs from the current one. The resourceVersion makes the write fail
// if the apiserver has charged the quota since it was read.
func (r *reconciler) write(ctx context.Context, q *corev1.ResourceQuota, used corev1.ResourceList, ledger *ledger) error {
	hard := q.Spec.Hard.DeepCopy()
	if hard == nil {
		hard = corev1.ResourceList{}
	}
	if sameStatus(q.Status, hard, used) {
		return nil
	}
	next := q.DeepCopy()
	next.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: used}
	if _, err := r.quotas.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError {
			ledger.lose()
		}
		return fmt.Errorf("writing the status of ResourceQuota %s/%s: %w", q.Namespace, q.Name, err)
	}
	ledger.wrote(used)
	return nil
}
