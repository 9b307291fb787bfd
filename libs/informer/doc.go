// Package informer keeps views of the API in memory and tells handlers of their changes, with
// the vocabulary and the semantics of client-go's tools/cache, generic down to the store.
//
// A SharedInformer follows one view of one resource: a Source gives it the statements that
// package follow accepts from NATS, or package listwatch from HTTP. They wait in an ordered
// queue of their own. The store, its indexes and the revision change together, so that the
// content is always exact for the revision. Then each handler is told, in a goroutine of its
// own, from a buffer of its own: first of all there is (isInInitialList), then of each change.
//
//	factory := informer.NewFactory(informer.FactoryConfig{Source: source, Table: table, Service: "mine"})
//	pods := informer.For[*corev1.Pod](factory)
//	err := pods.AddIndexers(informer.Indexers[*corev1.Pod]{"node": func(pod *corev1.Pod) ([]string, error) {
//		return []string{pod.Spec.NodeName}, nil
//	}})
//	...
//	registration, err := pods.AddEventHandler(reconcile.EnqueueObject[*corev1.Pod](controller.Enqueue))
//	...
//	go factory.Run(ctx) // Returns when all have ended.
//	err = informer.WaitFor(ctx, "pods", registration.HasSyncedChecker())
//	...
//	onNode, err := pods.Indexer().ByIndex("node", "n1")
//	pod, err := pods.Lister().Namespace("default").Get("web-0")
//
// A program reads from the store only, by Lister or Indexer, and writes through libs/client;
// WaitForRevision with the resourceVersion of an answer makes it read its own write. Objects of
// the store are shared: copy before changing. The environment variable
// KUBE_CACHE_MUTATION_DETECTOR finds who does not. Package reconcile is the rest of a
// controller, with an example of a whole one; package store is for what a program keeps by
// itself, with the same indexes and reads.
//
// # Handlers
//
// A handler's calls come one at a time; there is no order between handlers. It may block, panic
// or use the informer: that holds up nobody else. A panic is logged and counted, and the next
// change goes on, since no object may end the process. While fewer calls than
// Config.Backlog wait for a handler it gets every change, as with client-go. Beyond, the pending
// updates of one object become one, from the oldest state to the newest; adds, deletes and
// different uids never do. Factory.Watchers shows how far each handler is behind, and package
// watcher serves that.
//
// # Differences from client-go
//
// They are on purpose: a whole view that holds an object's cached revision tells nobody of it;
// an object that was deleted and created again is a delete and an add, never an update from one
// uid to another; a panic does not end the process; an index function or a transform that fails
// costs one object's place or one state of it; each handler is resynced in exactly its period.
// docs/reference/informer/informer.md has them all, with their tests.
package informer
