package controller

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/contention"
)

// Client returns the client that Deps needs: it records and counts the writes of each key.
func Client(c client.Interface) client.Interface { return contention.Counting(reconcile.Recording(c)) }

// newKeys returns the keys of one term of a declaration. When contention for one begins, it says so in the
// log, in a metric and in an Event about the object.
func (r *Runner) newKeys(spec *Spec, recorder *events.Recorder) *contention.Keys[Key] {
	name := cmp.Or(spec.Queue, spec.Name)
	begun := metric.Register(r.deps.Registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "garboard_controller_contentions_total",
		Help: "Times a controller became slower for a key, because something undid what it wrote.",
	}, []string{"controller"})).WithLabelValues(name)
	return contention.New(spec.SharedWrites, func(key Key, what string) {
		begun.Inc()
		r.deps.Logger.Warn("a controller writes in vain; it now writes at most 30 times a minute for this key",
			"controller", name, "key", key, "seen", what)
		obj, found := spec.For.find(key.String())
		if about, ok := obj.(scheme.Object); found && ok {
			recorder.Event(about, corev1.EventTypeWarning, "WriteBackOff",
				"%s writes less often for this object, at most 30 times a minute: %s", spec.Name, what)
		}
	})
}

// restrained returns the reconcile of a declaration, which waits while a key must.
func restrained(keys *contention.Keys[Key], spec *Spec) reconcile.Func[Key] {
	return func(ctx context.Context, key Key) (reconcile.Result, error) {
		ctx, wait := keys.Begin(ctx, key)
		if wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		result, err := spec.Reconcile(ctx, key)
		var slowed *contention.SlowedError
		switch {
		case err == nil:
			contention.Succeeded(ctx)
		case errors.As(err, &slowed):
			return reconcile.Result{RequeueAfter: max(slowed.After, time.Millisecond)}, nil
		case apierrors.IsConflict(err):
			contention.Conflicted(ctx)
		}
		return Requeue(result, err)
	}
}
