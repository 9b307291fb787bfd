package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/informer/workqueue"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

// Deps is what controllers are made from.
type Deps struct {
	// Client writes to the API, and reads what must not be stale. It must come from
	// reconcile.Recording, so that no controller acts on a cache that lacks its own writes.
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
	// Begin, unless nil, is called when a term begins, to forget what was kept in the one before.
	Begin func()
	// Events, unless nil, records the controller's Events.
	Events *events.Recorder
	// Also are loops that run beside the queue while a term lasts.
	Also []func(ctx context.Context) error
}

// Runner runs a controller, one term of leadership after the other.
type Runner struct {
	spec *Spec
	deps Deps
}

// NewRunner checks a declaration.
func NewRunner(d Deps, spec *Spec) (*Runner, error) {
	if spec.Name == "" || spec.Resource == "" || spec.For == nil || spec.Reconcile == nil {
		return nil, fmt.Errorf("declaring the controller %q: it needs a name, a resource, objects and a function", spec.Name)
	}
	return &Runner{spec: spec, deps: d}, nil
}

// Name returns the controller's name.
func (r *Runner) Name() string { return r.spec.Name }

// Run reconciles until ctx ends. It may be called again after it has returned.
func (r *Runner) Run(ctx context.Context) error {
	if r.spec.Begin != nil {
		r.spec.Begin()
	}
	workers := r.spec.Workers
	if r.deps.Workers > 0 {
		workers = r.deps.Workers
	}
	h := &handlers{priority: !r.spec.Unhurried}
	name := r.spec.Queue
	if name == "" {
		name = r.spec.Name
	}
	queue := reconcile.New(reconcile.Config[Key]{
		Name: name, Resource: r.spec.Resource, Workers: workers, Priority: h.priority,
		Reconcile: func(ctx context.Context, key Key) (reconcile.Result, error) {
			return control.Requeue(r.spec.Reconcile(ctx, key))
		},
		WaitFor: func() []informer.DoneChecker { return h.checkers }, Reads: &h.reads,
		Logger: r.deps.Logger, Registerer: r.deps.Registerer, Trace: r.deps.Trace,
	})
	t := &term{
		enqueue: func(key Key, opts workqueue.AddOpts) { queue.EnqueueWith(key, opts) },
		roots:   r.deps.Roots, find: r.spec.For.find, keys: map[string]rooted{},
	}
	var err error
	for _, watch := range append([]Watch{r.spec.For}, r.spec.Watches...) {
		if err = watch.begin(h, Queue{term: t}); err != nil {
			break
		}
	}
	if err == nil {
		runs := append([]func(context.Context) error{queue.Run}, r.spec.Also...)
		if r.spec.Events != nil {
			runs = append(runs, r.spec.Events.Run)
		}
		err = control.RunAll(ctx, runs...)
	}
	for _, remove := range h.remove {
		err = errors.Join(err, remove())
	}
	if err != nil {
		return fmt.Errorf("running the controller %s: %w", r.spec.Name, err)
	}
	return nil
}
