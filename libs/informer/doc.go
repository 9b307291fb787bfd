// Package informer keeps views of the API in memory and tells handlers of their changes, with
// the vocabulary and the semantics of client-go's tools/cache, generic down to the store.
//
// A SharedInformer follows one view of one resource: a Source gives it the statements that
// package follow accepts from NATS, or package listwatch from HTTP. The store, its indexes and
// the revision change together, so that the content is always exact for the revision. Then
// each handler is told, in a goroutine of its own, from a buffer of its own.
//
//	factory := informer.NewFactory(cfg)
//	pods := informer.For[*corev1.Pod](factory)
//	registration, err := pods.AddEventHandler(reconcile.EnqueueObject[*corev1.Pod](controller.Enqueue))
//	...
//	err = factory.Run(ctx)
//
// A program reads from the store only, by Lister or Indexer, and writes through libs/client.
// Objects of the store are shared: copy before changing.
//
// It differs from client-go on purpose in these: a whole view that holds an object's cached
// revision tells nobody of it; an object that was deleted and created again is a delete and an
// add, never an update from one uid to another; a panic in a handler is logged and counted and
// the next change goes on, since no object may end the process.
package informer
