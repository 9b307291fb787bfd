// Package control is what the controllers of this service have in common: what each is
// given, and how its event handlers live and end with one term of leadership.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/trace"
)

// Config is what every controller is given.
type Config struct {
	// Client writes to the API, and reads what must not be stale. It must be one made with
	// reconcile.Recording, so that no controller acts on a cache that does not show its writes.
	Client client.Interface
	// Informers are shared by all controllers. They run before a controller does and after
	// it has ended, so that another leader finds them warm.
	Informers *informer.Factory
	// Workers is how many keys a controller reconciles at a time; its own default when 0.
	Workers int
	// Logger takes the log; it must be set.
	Logger *slog.Logger
	// Registerer takes the metrics; none when nil.
	Registerer prometheus.Registerer
	// Trace takes the hops of changes; may be nil.
	Trace *trace.Recorder
}

// WorkersOr gives the number of workers, or another when none is set.
func (c Config) WorkersOr(n int) int {
	if c.Workers > 0 {
		return c.Workers
	}
	return n
}

// Handlers are the event handlers of one run of a controller, and the informers that it reads.
type Handlers struct {
	// Reads are the informers.
	Reads    reconcile.Caches
	checkers []informer.DoneChecker
	remove   []func() error
}

// Handle adds a handler to an informer for as long as the run lasts.
func Handle[T informer.Object](h *Handlers, i informer.SharedInformer[T], handler informer.ResourceEventHandler[T]) error {
	registration, err := i.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("adding an event handler: %w", err)
	}
	Need(h, i)
	h.checkers = append(h.checkers, registration.HasSyncedChecker())
	h.remove = append(h.remove, func() error { return i.RemoveEventHandler(registration) })
	return nil
}

// Need adds an informer that is read, and has no handler, to what must be synced.
func Need[T informer.Object](h *Handlers, i informer.SharedInformer[T]) {
	h.checkers = append(h.checkers, i.HasSyncedChecker())
	reconcile.Reads(&h.Reads, i)
}

// Checkers are done when all informers hold a whole view and all handlers have been told of it.
func (h *Handlers) Checkers() []informer.DoneChecker { return h.checkers }

// Remove takes all handlers from their informers when a run has ended with err, which may be nil.
// It gives err, or else what went wrong with the handlers.
func (h *Handlers) Remove(err error) error {
	var faults []error
	for _, remove := range h.remove {
		faults = append(faults, remove())
	}
	if err != nil {
		return err
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("removing event handlers: %w", err)
	}
	return nil
}

// RunAll runs functions until ctx ends or one of them fails, and returns when all have.
func RunAll(ctx context.Context, runs ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range runs {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// conflictDelay is how long a key waits after a write conflict. The write that won is on its
// way to the cache by then, and enqueues the key itself; this is for when it does not.
const conflictDelay = 100 * time.Millisecond

// Requeue makes of a conflict, which is no fault, another reconcile a little later.
func Requeue(result reconcile.Result, err error) (reconcile.Result, error) {
	if err == nil || !apierrors.IsConflict(err) {
		return result, err
	}
	return reconcile.Result{RequeueAfter: conflictDelay}, nil
}
