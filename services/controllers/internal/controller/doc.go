// Package controller runs the controllers of this service. A controller is a Spec: what it is called,
// what it watches, and a function that brings one object closer to its desired state.
//
//	func New(d controller.Deps) *controller.Spec {
//		r := &reconciler{sets: controller.For[*appsv1.ReplicaSet](d)}
//		r.pods = controller.OwnedBy[*corev1.Pod](d, r.sets)
//		r.events = d.Events("replicaset-controller")
//		return &controller.Spec{
//			Name: "replicaset-controller", Resource: "replicasets", Workers: 5, Events: r.events,
//			For: r.sets, Watches: []controller.Watch{r.pods}, Reconcile: r.reconcile,
//		}
//	}
//
// A Runner does the rest, once for each term of leadership: handlers, the queue, the wait for caches
// and for the controller's own writes, Events, and requeues after conflicts.
//
// The keys of a queue are objects of one kind, that of For. A key also has the root of its object: the
// UID of the topmost owner that is known. A Deployment, its ReplicaSets and their pods have one root, so
// that all of them can be given to one replica.
//
// The garbage collector has no Spec: its keys are UIDs of objects of all kinds, which it follows itself.
package controller
