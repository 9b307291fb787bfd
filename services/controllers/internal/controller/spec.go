package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/informer/workqueue"
	"github.com/garboard/garboard/libs/trace"
)

// Deps is what controllers are made from.
type Deps struct {
	// Client writes to the API, and reads what must not be stale. It must come from
	// Client, so that no controller acts on a cache that lacks its own writes, or fights another.
	Client client.Interface
	// Informers are shared by all controllers. They start before a controller and outlive it, so that
	// they are warm for the next term.
	Informers *informer.Factory
	// Roots finds the roots of keys; all controllers share it.
	Roots *Roots
	// Workers is how many keys a controller reconciles at a time; the Spec's number when 0.
	Workers int
	// Logger receives the log; required.
	Logger *slog.Logger
	// Registerer receives the metrics; there are none when nil.
	Registerer prometheus.Registerer
	// Trace records the hops of changes; may be nil.
	Trace *trace.Recorder
}

// Events returns a recorder of Events from a component.
func (d Deps) Events(component string) *events.Recorder {
	return events.New(d.Client, component, "").WithLogger(d.Logger)
}

// Spec declares a controller.
type Spec struct {
	// Name is its name in Kubernetes' list of controllers, for example "deployment-controller".
	Name string
	// Queue is the name of its queue in metrics and logs; Name when empty.
	Queue string
	// Resource is the resource of its keys: "deployments".
	Resource string
	// Workers is how many keys it reconciles at a time; 1 when 0.
	Workers int
	// For are the objects that it is for, and Watches what else it reads.
	For     Main
	Watches []Watch
	// Reconcile brings the object that a key names closer to its desired state. A conflict of its
	// writes is not a fault: the key comes again a little later.
	Reconcile func(ctx context.Context, key Key) (reconcile.Result, error)
	// Unhurried means that events without a change, such as those of the first list, do not give way
	// to others.
	Unhurried bool
	// SharedWrites means that others write the same fields by right, as the apiserver charges quotas and
	// disruption budgets: that a write must be repeated is then no sign of contention.
	SharedWrites bool
	// BatchPeriod is for how long, at most, a change of a key waits for others of the same key while those of a hundred
	// keys come, 5 seconds at most. When 0, the first is reconciled at once, and those that follow wait for a second at most. It is for
	// controllers that no other waits for.
	BatchPeriod time.Duration
	// Begin, unless nil, is called when a term begins, before any event, to forget what was kept in the
	// one before. Its queue is that of the term.
	Begin func(q Queue)
	// WaitFor is what must be done before the first key is reconciled, besides the views of what the
	// controller watches.
	WaitFor []informer.DoneChecker
	// Events, unless nil, records the controller's Events.
	Events *events.Recorder
	// Also are loops that run beside the queue while a term lasts.
	Also []func(ctx context.Context) error
	// Beside are the controller's other queues, each with its own name. They end with this one.
	Beside []*Spec
}

// Runner runs a controller, one term of leadership after the other.
type Runner struct {
	spec *Spec
	deps Deps
}

// NewRunner checks a declaration.
func NewRunner(d Deps, spec *Spec) (*Runner, error) {
	for _, each := range append([]*Spec{spec}, spec.Beside...) {
		if each.Name == "" || each.Resource == "" || each.For == nil || each.Reconcile == nil {
			return nil, fmt.Errorf("declaring the controller %q: it needs a name, a resource, objects and a function", each.Name)
		}
	}
	return &Runner{spec: spec, deps: d}, nil
}

// Name returns the controller's name.
func (r *Runner) Name() string { return r.spec.Name }

// Run reconciles until ctx ends. It may be called again after it has returned.
func (r *Runner) Run(ctx context.Context) error {
	runs := []func(context.Context) error{func(ctx context.Context) error { return r.run(ctx, r.spec) }}
	for _, beside := range r.spec.Beside {
		runs = append(runs, func(ctx context.Context) error { return r.run(ctx, beside) })
	}
	return RunAll(ctx, runs...)
}

// run runs one queue of the controller for one term.
func (r *Runner) run(ctx context.Context, spec *Spec) error {
	recorder := spec.Events
	if recorder == nil {
		recorder = r.deps.Events(spec.Name)
	}
	h := &handlers{priority: !spec.Unhurried, checkers: slices.Clone(spec.WaitFor), contention: r.newKeys(spec, recorder)}
	queue := r.queue(spec, h)
	q := Queue{term: &term{
		enqueue: func(key Key, opts workqueue.AddOpts) { queue.EnqueueWith(key, opts) },
		roots:   r.deps.Roots, find: spec.For.find, keys: map[string]rooted{},
	}}
	if spec.Begin != nil {
		spec.Begin(q)
	}
	var err error
	for _, watch := range append([]Watch{spec.For}, spec.Watches...) {
		if err = watch.begin(h, q); err != nil {
			break
		}
	}
	if err == nil {
		runs := append([]func(context.Context) error{queue.Run, recorder.Run}, spec.Also...)
		err = RunAll(ctx, runs...)
	}
	for _, remove := range h.remove {
		err = errors.Join(err, remove())
	}
	if err != nil {
		return fmt.Errorf("running the controller %s: %w", spec.Name, err)
	}
	return nil
}

// queue returns the queue of a declaration.
func (r *Runner) queue(spec *Spec, h *handlers) *reconcile.Controller[Key] {
	workers := spec.Workers
	if r.deps.Workers > 0 {
		workers = r.deps.Workers
	}
	return reconcile.New(reconcile.Config[Key]{
		Name: cmp.Or(spec.Queue, spec.Name), Resource: spec.Resource, Workers: workers, Priority: h.priority,
		Reconcile: paced(restrained(h.contention, spec), spec.BatchPeriod), Object: Key.object,
		WaitFor: func() []informer.DoneChecker { return h.checkers }, Reads: &h.reads,
		Logger: r.deps.Logger, Registerer: r.deps.Registerer, Trace: r.deps.Trace,
	})
}

// RunAll runs functions until ctx ends or one of them fails, and returns when all have returned.
func RunAll(ctx context.Context, runs ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range runs {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// conflictDelay is how long a key waits after a write conflict. By then the winning write is on its
// way to the cache, and enqueues the key itself; the delay covers the case where it doesn't.
const conflictDelay = 100 * time.Millisecond

// Requeue turns a conflict, which is not a fault, into another reconcile a little later. Runners do so
// themselves.
func Requeue(result reconcile.Result, err error) (reconcile.Result, error) {
	if err == nil || !apierrors.IsConflict(err) {
		return result, err
	}
	return reconcile.Result{RequeueAfter: conflictDelay}, nil
}
