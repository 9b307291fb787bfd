// Package workqueue is the queue between event handlers and workers. It has the names and the
// semantics of k8s.io/client-go/util/workqueue v0.37, so that code written for that package
// compiles and behaves the same with this one:
//
//   - fair: keys are handed out in the order in which they were added;
//   - stingy: a key added many times before a worker gets it is handed out once;
//   - exclusive: a key is never with two workers; a key added while a worker has it is handed out
//     again after that worker's Done;
//   - able to shut down: at once, or after waiting for the keys that workers hold.
//
// # Use
//
// Handlers add keys, never objects: a worker looks up what a key means when it works on it, so that
// ten changes are one piece of work on the newest state. A worker is a loop; run as many workers as
// keys should be worked on at once:
//
//	for {
//		key, shutdown := q.Get() // blocks
//		if shutdown {
//			return
//		}
//		if err := work(key); err != nil {
//			q.AddRateLimited(key) // again, after the limiter's delay
//		} else {
//			q.Forget(key) // the limiter starts anew
//		}
//		q.Done(key) // always, once for each Get
//	}
//
// There are three queues, each with the methods of those before it. NewTyped creates the plain one:
// Add, Get, Done. NewTypedDelayingQueue adds AddAfter, for work at a later time: of several delays
// of a key the earliest counts. NewTypedRateLimitingQueue adds AddRateLimited, for failed work: a
// limiter determines the delay. The constructors with a Config take a name and a MetricsProvider
// (seven metrics per queue, created once with its name), a clock for tests, and the underlying
// queue. The Queue of TypedQueueConfig determines the order of keys, for instance by priority.
//
// Limiters are NewTypedItemExponentialFailureRateLimiter (base, base*2, base*4 ... up to a maximum,
// for each key), NewTypedItemFastSlowRateLimiter, TypedBucketRateLimiter (one token bucket for all
// keys), NewTypedMaxOfRateLimiter and NewTypedWithMaxWaitRateLimiter to combine them, and
// DefaultTypedControllerRateLimiter: 5 ms to 1000 s, and 10 a second for all keys together after
// the first 100. A limiter remembers a key until Forget.
//
// # Shutting down
//
// ShutDown silently refuses further keys, drops delayed ones, and ends each Get once the queued
// keys are handed out. ShutDownWithDrain is ShutDown, and waits until no worker holds a key; it
// does not wait for queued keys. Drain waits for queued keys too and, depending on its argument,
// for delayed ones. A queue with metrics, or one that has delayed anything, has a goroutine until
// one of these is called.
//
// # Beyond client-go
//
// Every exported name of client-go's package exists here with its signature. Additions change
// nothing unless they are used:
//
//   - the delaying and rate limiting queues are TypedSchedulers: ReplaceAfter, AddAfterIfAbsent and
//     CancelAfter for a delayed key, and Drain;
//   - NewTypedPriorityQueue creates a rate limiting queue whose keys have priorities;
//   - NewTypedJitteredRateLimiter spreads the delays of another limiter.
//
// Where client-go has quirks that no correct program can rely on, this package fixes them: Done of
// a key that no worker holds is ignored; every waiting ShutDownWithDrain is woken; keys due at one
// instant come out in the order in which they were added; AddAfter never blocks; a delaying queue
// that is drained or shut down twice ends like any other; no back-off is negative; and no
// constructor starts a goroutine. What a program may rely on is kept: ShutDownWithDrain does not
// wait for queued keys, and Add does not cancel a delayed add of the same key.
// docs/reference/informer/workqueue.md has the list, with the test of each.
package workqueue
