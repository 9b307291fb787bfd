package workqueue

import "k8s.io/utils/clock"

// TypedRateLimitingInterface is a queue that can add an item when a rate limiter allows it.
type TypedRateLimitingInterface[T comparable] interface {
	TypedDelayingInterface[T]
	// AddRateLimited adds item after the rate limiter's delay.
	AddRateLimited(item T)
	// Forget makes the rate limiter forget item's failures. Done must still be called.
	Forget(item T)
	// NumRequeues returns how often the rate limiter was asked about item since it last forgot it.
	NumRequeues(item T) int
}

// RateLimitingInterface is TypedRateLimitingInterface of any.
//
// Deprecated: use TypedRateLimitingInterface.
type RateLimitingInterface TypedRateLimitingInterface[any]

// TypedRateLimitingQueueConfig are the options of a rate limiting queue.
type TypedRateLimitingQueueConfig[T comparable] struct {
	// Name is the queue's name in metrics; without a name there are no metrics.
	Name string
	// MetricsProvider creates the metrics; the one passed to SetProvider when nil.
	MetricsProvider MetricsProvider
	// Clock is for tests; the real clock when nil.
	Clock clock.WithTicker
	// DelayingQueue receives the items; one with the options above when nil.
	DelayingQueue TypedDelayingInterface[T]
}

// RateLimitingQueueConfig is TypedRateLimitingQueueConfig of any.
//
// Deprecated: use TypedRateLimitingQueueConfig.
type RateLimitingQueueConfig = TypedRateLimitingQueueConfig[any]

// NewRateLimitingQueue creates a rate limiting queue.
//
// Deprecated: use NewTypedRateLimitingQueue.
func NewRateLimitingQueue(rateLimiter RateLimiter) RateLimitingInterface {
	return NewTypedRateLimitingQueue[any](rateLimiter)
}

// NewRateLimitingQueueWithConfig creates a rate limiting queue.
//
// Deprecated: use NewTypedRateLimitingQueueWithConfig.
func NewRateLimitingQueueWithConfig(rateLimiter RateLimiter, config RateLimitingQueueConfig) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, config)
}

// NewNamedRateLimitingQueue creates a rate limiting queue with metrics.
//
// Deprecated: use NewTypedRateLimitingQueueWithConfig.
func NewNamedRateLimitingQueue(rateLimiter RateLimiter, name string) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, RateLimitingQueueConfig{Name: name})
}

// NewRateLimitingQueueWithDelayingInterface creates a rate limiting queue in front of di.
//
// Deprecated: use NewTypedRateLimitingQueueWithConfig.
func NewRateLimitingQueueWithDelayingInterface(di DelayingInterface, rateLimiter RateLimiter) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, RateLimitingQueueConfig{DelayingQueue: di})
}

// NewTypedRateLimitingQueue creates a rate limiting queue with default options.
func NewTypedRateLimitingQueue[T comparable](rateLimiter TypedRateLimiter[T]) TypedRateLimitingInterface[T] {
	return NewTypedRateLimitingQueueWithConfig(rateLimiter, TypedRateLimitingQueueConfig[T]{})
}

// NewTypedRateLimitingQueueWithConfig creates a rate limiting queue.
func NewTypedRateLimitingQueueWithConfig[T comparable](rateLimiter TypedRateLimiter[T],
	config TypedRateLimitingQueueConfig[T]) TypedRateLimitingInterface[T] {
	if config.DelayingQueue == nil {
		config.DelayingQueue = NewTypedDelayingQueueWithConfig(TypedDelayingQueueConfig[T]{
			Name: config.Name, MetricsProvider: config.MetricsProvider, Clock: config.Clock,
		})
	}
	q := rateLimiting[T]{TypedDelayingInterface: config.DelayingQueue, limiter: rateLimiter}
	if scheduler, ok := config.DelayingQueue.(TypedScheduler[T]); ok {
		return &schedulingRateLimiting[T]{rateLimiting: q, TypedScheduler: scheduler}
	}
	return &q
}

// rateLimiting asks a limiter when to add.
type rateLimiting[T comparable] struct {
	TypedDelayingInterface[T]
	limiter TypedRateLimiter[T]
}

// schedulingRateLimiting is rateLimiting in front of a delaying queue of this package.
type schedulingRateLimiting[T comparable] struct {
	rateLimiting[T]
	TypedScheduler[T]
}

func (q *rateLimiting[T]) AddRateLimited(item T) { q.AddAfter(item, q.limiter.When(item)) }

func (q *rateLimiting[T]) Forget(item T) { q.limiter.Forget(item) }

func (q *rateLimiting[T]) NumRequeues(item T) int { return q.limiter.NumRequeues(item) }
