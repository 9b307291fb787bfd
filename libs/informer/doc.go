// Package informer keeps views of the API in memory and notifies handlers of their changes. It has
// the vocabulary and the semantics of client-go's tools/cache, and is generic down to the store.
//
// A SharedInformer follows one view of one resource. A Source feeds it statements: package
// fabricsource accepts them from NATS, package listwatch from HTTP. They wait in an ordered queue
// of the informer. The store, its indexes and the revision change together, so the content is
// always exact for the revision. Then the informer notifies each handler, in the handler's own
// goroutine and from its own buffer: first of every existing object (isInInitialList), then of each
// change.
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
// A program reads only from the store, through Lister or Indexer, and writes through libs/client.
// To read its own write, it calls WaitForRevision with the resourceVersion of the response. Objects
// of the store are shared: copy before changing. The environment variable
// KUBE_CACHE_MUTATION_DETECTOR detects code that changes them. Package reconcile is the rest of a
// controller, with a complete example. Package store is for objects that a program stores by
// itself, with the same indexes and reads.
//
// # Handlers
//
// A handler's calls come one at a time; there is no order between handlers. A handler may block,
// panic or use the informer without delaying any other. A panic is logged and counted, and the next
// change is delivered, since no object may end the process. While fewer calls than Config.Backlog
// wait for a handler it gets every change, as with client-go. Beyond that limit, the pending
// updates of one object coalesce into one, from the oldest state to the newest. Adds, deletes and
// updates of different UIDs never coalesce. Factory.Watchers reports how far each handler is
// behind, and package watcher serves that report.
//
// # Differences from client-go
//
// These differences are deliberate. A whole view that holds an object at its cached revision
// notifies no handler of it. An object that was deleted and created again is a delete and an add,
// never an update from one UID to another. A panic does not end the process. An index function that
// fails costs the object its place in that index; a transform that fails costs one state of the
// object. Each handler is resynced in exactly its own period. docs/reference/informer/informer.md
// lists all differences, with their tests.
package informer
