package workqueue

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// TypedRateLimiter determines how long an item waits before it is retried. Its methods may be
// called from any goroutine.
type TypedRateLimiter[T comparable] interface {
	// When counts a failure of item and returns its delay.
	When(item T) time.Duration
	// Forget forgets the failures of item.
	Forget(item T)
	// NumRequeues returns the number of failures of item.
	NumRequeues(item T) int
}

// RateLimiter is TypedRateLimiter of any.
//
// Deprecated: use TypedRateLimiter.
type RateLimiter TypedRateLimiter[any]

// DefaultTypedControllerRateLimiter is the limiter that controllers use: 5 ms doubling to 1000 s
// for each item, and 10 retries a second after the first 100 for all items together.
func DefaultTypedControllerRateLimiter[T comparable]() TypedRateLimiter[T] {
	return NewTypedMaxOfRateLimiter[T](
		NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second),
		&TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(10, 100)},
	)
}

// DefaultControllerRateLimiter is DefaultTypedControllerRateLimiter of any.
//
// Deprecated: use DefaultTypedControllerRateLimiter.
func DefaultControllerRateLimiter() RateLimiter { return DefaultTypedControllerRateLimiter[any]() }

// DefaultTypedItemBasedRateLimiter is 1 ms doubling to 1000 s for each item.
func DefaultTypedItemBasedRateLimiter[T comparable]() TypedRateLimiter[T] {
	return NewTypedItemExponentialFailureRateLimiter[T](time.Millisecond, 1000*time.Second)
}

// DefaultItemBasedRateLimiter is DefaultTypedItemBasedRateLimiter of any.
//
// Deprecated: use DefaultTypedItemBasedRateLimiter.
func DefaultItemBasedRateLimiter() RateLimiter { return DefaultTypedItemBasedRateLimiter[any]() }

// failures counts the failures of items.
type failures[T comparable] struct {
	mu     sync.Mutex
	counts map[T]int
}

// increment counts one more failure and returns the new count.
func (f *failures[T]) increment(item T) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[T]int{}
	}
	f.counts[item]++
	return f.counts[item]
}

// Forget forgets the failures of item.
func (f *failures[T]) Forget(item T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.counts, item)
}

// NumRequeues returns the number of failures of item.
func (f *failures[T]) NumRequeues(item T) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[item]
}

// TypedItemExponentialFailureRateLimiter doubles the delay of an item with each failure.
type TypedItemExponentialFailureRateLimiter[T comparable] struct {
	failures[T]
	base, limit time.Duration
}

// ItemExponentialFailureRateLimiter is TypedItemExponentialFailureRateLimiter of any.
//
// Deprecated: use TypedItemExponentialFailureRateLimiter.
type ItemExponentialFailureRateLimiter = TypedItemExponentialFailureRateLimiter[any]

// NewTypedItemExponentialFailureRateLimiter creates a limiter whose first delay is baseDelay and
// whose delays are at most maxDelay.
func NewTypedItemExponentialFailureRateLimiter[T comparable](baseDelay, maxDelay time.Duration) TypedRateLimiter[T] {
	return &TypedItemExponentialFailureRateLimiter[T]{base: baseDelay, limit: maxDelay}
}

// NewItemExponentialFailureRateLimiter is NewTypedItemExponentialFailureRateLimiter of any.
//
// Deprecated: use NewTypedItemExponentialFailureRateLimiter.
func NewItemExponentialFailureRateLimiter(baseDelay, maxDelay time.Duration) RateLimiter {
	return NewTypedItemExponentialFailureRateLimiter[any](baseDelay, maxDelay)
}

// When counts a failure of item and returns its delay.
func (r *TypedItemExponentialFailureRateLimiter[T]) When(item T) time.Duration {
	delay := float64(r.base) * math.Pow(2, float64(r.increment(item)-1))
	// MaxInt64 as a float is 2^63, which a Duration cannot hold: hence >=.
	if delay >= math.MaxInt64 {
		return r.limit
	}
	return min(time.Duration(delay), r.limit)
}

// TypedItemFastSlowRateLimiter retries an item quickly a few times, then slowly.
type TypedItemFastSlowRateLimiter[T comparable] struct {
	failures[T]
	fast, slow time.Duration
	attempts   int
}

// ItemFastSlowRateLimiter is TypedItemFastSlowRateLimiter of any.
//
// Deprecated: use TypedItemFastSlowRateLimiter.
type ItemFastSlowRateLimiter = TypedItemFastSlowRateLimiter[any]

// NewTypedItemFastSlowRateLimiter creates a limiter whose delay is fastDelay for the first
// maxFastAttempts failures of an item and slowDelay for later ones.
func NewTypedItemFastSlowRateLimiter[T comparable](fastDelay, slowDelay time.Duration, maxFastAttempts int) TypedRateLimiter[T] {
	return &TypedItemFastSlowRateLimiter[T]{fast: fastDelay, slow: slowDelay, attempts: maxFastAttempts}
}

// NewItemFastSlowRateLimiter is NewTypedItemFastSlowRateLimiter of any.
//
// Deprecated: use NewTypedItemFastSlowRateLimiter.
func NewItemFastSlowRateLimiter(fastDelay, slowDelay time.Duration, maxFastAttempts int) RateLimiter {
	return NewTypedItemFastSlowRateLimiter[any](fastDelay, slowDelay, maxFastAttempts)
}

// When counts a failure of item and returns its delay.
func (r *TypedItemFastSlowRateLimiter[T]) When(item T) time.Duration {
	if r.increment(item) <= r.attempts {
		return r.fast
	}
	return r.slow
}

// TypedBucketRateLimiter is one token bucket for all items.
type TypedBucketRateLimiter[T comparable] struct {
	*rate.Limiter
}

// BucketRateLimiter is TypedBucketRateLimiter of any.
//
// Deprecated: use TypedBucketRateLimiter.
type BucketRateLimiter = TypedBucketRateLimiter[any]

// When takes a token and returns the time until it is available.
func (r *TypedBucketRateLimiter[T]) When(T) time.Duration { return r.Reserve().Delay() }

// NumRequeues is 0: the bucket does not distinguish items.
func (r *TypedBucketRateLimiter[T]) NumRequeues(T) int { return 0 }

// Forget does nothing: tokens are not returned.
func (r *TypedBucketRateLimiter[T]) Forget(T) {}

// TypedMaxOfRateLimiter asks several limiters and uses the longest delay.
type TypedMaxOfRateLimiter[T comparable] struct {
	limiters []TypedRateLimiter[T]
}

// MaxOfRateLimiter is TypedMaxOfRateLimiter of any.
//
// Deprecated: use TypedMaxOfRateLimiter.
type MaxOfRateLimiter = TypedMaxOfRateLimiter[any]

// NewTypedMaxOfRateLimiter creates a limiter of several.
func NewTypedMaxOfRateLimiter[T comparable](limiters ...TypedRateLimiter[T]) TypedRateLimiter[T] {
	return &TypedMaxOfRateLimiter[T]{limiters: limiters}
}

// NewMaxOfRateLimiter is NewTypedMaxOfRateLimiter of any.
//
// Deprecated: use NewTypedMaxOfRateLimiter.
func NewMaxOfRateLimiter(limiters ...TypedRateLimiter[any]) RateLimiter {
	return NewTypedMaxOfRateLimiter(limiters...)
}

// When asks every limiter, each of which counts the failure, and returns the longest delay.
func (r *TypedMaxOfRateLimiter[T]) When(item T) time.Duration {
	var longest time.Duration
	for _, limiter := range r.limiters {
		longest = max(longest, limiter.When(item))
	}
	return longest
}

// NumRequeues returns the largest number of the limiters.
func (r *TypedMaxOfRateLimiter[T]) NumRequeues(item T) int {
	var most int
	for _, limiter := range r.limiters {
		most = max(most, limiter.NumRequeues(item))
	}
	return most
}

// Forget makes every limiter forget item.
func (r *TypedMaxOfRateLimiter[T]) Forget(item T) {
	for _, limiter := range r.limiters {
		limiter.Forget(item)
	}
}

// TypedWithMaxWaitRateLimiter bounds the delays of another limiter.
type TypedWithMaxWaitRateLimiter[T comparable] struct {
	limiter TypedRateLimiter[T]
	limit   time.Duration
}

// WithMaxWaitRateLimiter is TypedWithMaxWaitRateLimiter of any.
//
// Deprecated: use TypedWithMaxWaitRateLimiter.
type WithMaxWaitRateLimiter = TypedWithMaxWaitRateLimiter[any]

// NewTypedWithMaxWaitRateLimiter creates a limiter whose delays are limiter's, at most maxDelay.
func NewTypedWithMaxWaitRateLimiter[T comparable](limiter TypedRateLimiter[T], maxDelay time.Duration) TypedRateLimiter[T] {
	return &TypedWithMaxWaitRateLimiter[T]{limiter: limiter, limit: maxDelay}
}

// NewWithMaxWaitRateLimiter is NewTypedWithMaxWaitRateLimiter of any.
//
// Deprecated: use NewTypedWithMaxWaitRateLimiter.
func NewWithMaxWaitRateLimiter(limiter RateLimiter, maxDelay time.Duration) RateLimiter {
	return NewTypedWithMaxWaitRateLimiter[any](limiter, maxDelay)
}

// When returns the inner limiter's delay, bounded.
func (r TypedWithMaxWaitRateLimiter[T]) When(item T) time.Duration {
	return min(r.limiter.When(item), r.limit)
}

// Forget makes the inner limiter forget item.
func (r TypedWithMaxWaitRateLimiter[T]) Forget(item T) { r.limiter.Forget(item) }

// NumRequeues returns the inner limiter's number.
func (r TypedWithMaxWaitRateLimiter[T]) NumRequeues(item T) int { return r.limiter.NumRequeues(item) }

// TypedJitteredRateLimiter lengthens the delays of another limiter by random amounts, so that items
// that failed together do not come back together. Client-go has no such limiter.
type TypedJitteredRateLimiter[T comparable] struct {
	limiter TypedRateLimiter[T]
	factor  float64
}

// NewTypedJitteredRateLimiter creates a limiter whose delays are evenly spread between limiter's
// and (1 + factor) times that; no item waits less than limiter says. A factor of 0.1 to 1 is usual;
// a factor that is not positive (or not a number) adds nothing. To bound the sum, wrap this limiter
// in NewTypedWithMaxWaitRateLimiter. A bound inside limiter keeps the jitter even for items whose
// delay has reached the bound.
func NewTypedJitteredRateLimiter[T comparable](limiter TypedRateLimiter[T], factor float64) TypedRateLimiter[T] {
	if !(factor > 0) {
		factor = 0
	}
	return &TypedJitteredRateLimiter[T]{limiter: limiter, factor: factor}
}

// When asks the inner limiter, once, and adds to its delay.
func (r *TypedJitteredRateLimiter[T]) When(item T) time.Duration {
	delay := r.limiter.When(item)
	if delay <= 0 || r.factor == 0 {
		return delay
	}
	longer := float64(delay) + rand.Float64()*r.factor*float64(delay)
	if longer >= math.MaxInt64 {
		return math.MaxInt64
	}
	// As a float, a long delay may be a little less than the delay.
	return max(delay, time.Duration(longer))
}

// Forget makes the inner limiter forget item.
func (r *TypedJitteredRateLimiter[T]) Forget(item T) { r.limiter.Forget(item) }

// NumRequeues returns the inner limiter's number.
func (r *TypedJitteredRateLimiter[T]) NumRequeues(item T) int { return r.limiter.NumRequeues(item) }
