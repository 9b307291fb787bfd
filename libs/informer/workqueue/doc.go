// Package workqueue is the queue between event handlers and workers, under the names and with
// the semantics of k8s.io/client-go/util/workqueue v0.37, so that code written for that
// package compiles and behaves the same with this one:
//
//   - fair: keys are handed out in the order in which they were added;
//   - stingy: a key added many times before it is got is handed out once;
//   - exclusive: a key is never with two workers; one that is added while a worker has it is
//     handed out again after that worker's Done;
//   - able to shut down: at once, or after waiting for the keys that workers hold.
//
// A worker is a loop:
//
//	for {
//		key, shutdown := q.Get()
//		if shutdown {
//			return
//		}
//		work(key)
//		q.Done(key)
//	}
//
// Where client-go has warts that no correct program can rely on, this package mends them:
// Done of a key that no worker holds is ignored, every waiting ShutDownWithDrain is woken,
// keys due at one instant come out in the order in which they were added, AddAfter never
// blocks, a delaying queue that is drained or shut down twice ends like any other, and no
// constructor starts a goroutine. What a program may rely on is kept: ShutDownWithDrain waits for keys
// with workers and not for queued ones, and Add does not cancel a delayed add of the same key.
package workqueue
