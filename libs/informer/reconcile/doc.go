// Package reconcile is the loop of a controller: keys from event handlers, a work queue, and
// workers that call one function per key. The function compares the actual state with the desired
// one and acts.
//
//	controller := reconcile.New(reconcile.Config[string]{
//		Name: "replicaset", Workers: 5, Reconcile: r.reconcile, Resource: "replicasets",
//		WaitFor: func() []informer.DoneChecker { return wait },
//	})
//	sets, err := replicaSets.AddEventHandler(reconcile.EnqueueObject[*appsv1.ReplicaSet](controller.Enqueue))
//	owned, err := pods.AddEventHandler(reconcile.EnqueueOwner[*corev1.Pod](controller.Enqueue, replicaSet))
//	wait = []informer.DoneChecker{sets.HasSyncedChecker(), owned.HasSyncedChecker()}
//	err = controller.Run(ctx)
//
// A handler only enqueues a key; the worker reads the current state from an informer's cache, never
// from the event. A key is never with two workers. However many changes arrive while a worker holds
// it, it is reconciled once more.
//
// The result of the function decides what follows (controller-runtime, pkg/reconcile):
//
//	error                   retried, with a delay that grows with each failure
//	TerminalError           logged; not retried until something changes
//	Result.RequeueAfter     reconciled again after that time; earlier failures are forgotten
//	neither                 earlier failures are forgotten
//
// A panic is an error like any other.
//
// A controller that writes through a Recording client, and names the caches it reads in
// Config.Reads, never acts on a cache that does not show its own last write for the key (for up to
// five minutes).
//
// With Config.Priority, and handlers created by ByPriority, changed keys are reconciled before the
// initial list of a start.
package reconcile
