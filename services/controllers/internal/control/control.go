// Package control is what the controllers of this service share: their configuration, and event
// handlers that live as long as one term of leadership.
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

// Config is the configuration that every controller receives.
type Config struct {
	// Client writes to the API, and reads what must not be stale. It must come from
	// reconcile.Recording, so that no controller acts on a cache that lacks its own writes.
	Client client.Interface
	// Informers are shared by all controllers. They start before a controller and outlive it, so
	// that they are warm for the next term.
	Informers *informer.Factory
	// Workers is how many keys a controller reconciles at a time; the controller's default when 0.
	Workers int
	// Logger receives the log; required.
	Logger *slog.Logger
	// Registerer receives the metrics; there are none when nil.
	Registerer prometheus.Registerer
	// Trace records the hops of changes; may be nil.
	Trace *trace.Recorder
}

// WorkersOr returns the configured number of workers, or n if none is configured.
func (c Config) WorkersOr(n int) int {
	if c.Workers > 0 {
		return c.Workers
	}
	return n
}

// Handlers holds the event handlers of one run of a controller, and the informers that it reads.
type Handlers struct {
	// Reads are the informers that the controller reads.
	Reads    reconcile.Caches
	checkers []informer.DoneChecker
	remove   []func() error
}

// Handle adds a handler to an informer until Remove is called.
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

// Need registers an informer that the controller reads without a handler, so that the run waits for
// its sync.
func Need[T informer.Object](h *Handlers, i informer.SharedInformer[T]) {
	h.checkers = append(h.checkers, i.HasSyncedChecker())
	reconcile.Reads(&h.Reads, i)
}

// Checkers returns checkers that are done when all informers hold a whole view and all handlers
// have received it.
func (h *Handlers) Checkers() []informer.DoneChecker { return h.checkers }

// Remove removes all handlers after a run that ended with err, which may be nil. It returns err, or
// else the faults of removing the handlers.
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

// Requeue turns a conflict, which is not a fault, into another reconcile a little later.
func Requeue(result reconcile.Result, err error) (reconcile.Result, error) {
	if err == nil || !apierrors.IsConflict(err) {
		return result, err
	}
	return reconcile.Result{RequeueAfter: conflictDelay}, nil
}
