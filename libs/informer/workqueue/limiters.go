package workqueue

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// TypedRateLimiter says how long an item waits before it is tried again. Its methods may be
// called from any goroutine.
type TypedRateLimiter[T comparable] interface {
	// When counts a failure of item and gives its delay.
	When(item T) time.Duration
	// Forget forgets the failures of item.
	Forget(item T)
	// NumRequeues is the number of failures of item.
	NumRequeues(item T) int
}

// RateLimiter is TypedRateLimiter of any.
//
// Deprecated: use TypedRateLimiter.
type RateLimiter TypedRateLimiter[any]

// DefaultTypedControllerRateLimiter is what controllers use: 5 ms doubling to 1000 s for each
// item, and 10 retries a second after the first 100 for all together.
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

// increment counts one more failure and gives the number with it.
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

// NumRequeues is the number of failures of item.
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

// NewTypedItemExponentialFailureRateLimiter makes a limiter whose first delay is baseDelay
// and whose delays are at most maxDelay.
func NewTypedItemExponentialFailureRateLimiter[T comparable](baseDelay, maxDelay time.Duration) TypedRateLimiter[T] {
	return &TypedItemExponentialFailureRateLimiter[T]{base: baseDelay, limit: maxDelay}
}

// NewItemExponentialFailureRateLimiter is NewTypedItemExponentialFailureRateLimiter of any.
//
// Deprecated: use NewTypedItemExponentialFailureRateLimiter.
func NewItemExponentialFailureRateLimiter(baseDelay, maxDelay time.Duration) RateLimiter {
	return NewTypedItemExponentialFailureRateLimiter[any](baseDelay, maxDelay)
}

// When counts a failure of item and gives its delay.
func (r *TypedItemExponentialFailureRateLimiter[T]) When(item T) time.Duration {
	delay := float64(r.base) * math.Pow(2, float64(r.increment(item)-1))
	// MaxInt64 as a float is 2^63, which a Duration cannot hold: the comparison is not strict.
	if delay >= math.MaxInt64 {
		return r.limit
	}
	return min(time.Duration(delay), r.limit)
}

// TypedItemFastSlowRateLimiter tries an item quickly a few times, then slowly.
type TypedItemFastSlowRateLimiter[T comparable] struct {
	failures[T]
	fast, slow time.Duration
	attempts   int
}

// ItemFastSlowRateLimiter is TypedItemFastSlowRateLimiter of any.
//
// Deprecated: use TypedItemFastSlowRateLimiter.
type ItemFastSlowRateLimiter = TypedItemFastSlowRateLimiter[any]

// NewTypedItemFastSlowRateLimiter makes a limiter that gives fastDelay to the first
// maxFastAttempts failures of an item and slowDelay to the later ones.
func NewTypedItemFastSlowRateLimiter[T comparable](fastDelay, slowDelay time.Duration, maxFastAttempts int) TypedRateLimiter[T] {
	return &TypedItemFastSlowRateLimiter[T]{fast: fastDelay, slow: slowDelay, attempts: maxFastAttempts}
}

// NewItemFastSlowRateLimiter is NewTypedItemFastSlowRateLimiter of any.
//
// Deprecated: use NewTypedItemFastSlowRateLimiter.
func NewItemFastSlowRateLimiter(fastDelay, slowDelay time.Duration, maxFastAttempts int) RateLimiter {
	return NewTypedItemFastSlowRateLimiter[any](fastDelay, slowDelay, maxFastAttempts)
}

// When counts a failure of item and gives its delay.
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

// When takes a token and gives the time until it is there.
func (r *TypedBucketRateLimiter[T]) When(T) time.Duration { return r.Reserve().Delay() }

// NumRequeues is 0: the bucket knows no items.
func (r *TypedBucketRateLimiter[T]) NumRequeues(T) int { return 0 }

// Forget does nothing: tokens are not given back.
func (r *TypedBucketRateLimiter[T]) Forget(T) {}

// TypedMaxOfRateLimiter asks several limiters and takes the longest delay.
type TypedMaxOfRateLimiter[T comparable] struct {
	limiters []TypedRateLimiter[T]
}

// MaxOfRateLimiter is TypedMaxOfRateLimiter of any.
//
// Deprecated: use TypedMaxOfRateLimiter.
type MaxOfRateLimiter = TypedMaxOfRateLimiter[any]

// NewTypedMaxOfRateLimiter makes a limiter of several.
func NewTypedMaxOfRateLimiter[T comparable](limiters ...TypedRateLimiter[T]) TypedRateLimiter[T] {
	return &TypedMaxOfRateLimiter[T]{limiters: limiters}
}

// NewMaxOfRateLimiter is NewTypedMaxOfRateLimiter of any.
//
// Deprecated: use NewTypedMaxOfRateLimiter.
func NewMaxOfRateLimiter(limiters ...TypedRateLimiter[any]) RateLimiter {
	return NewTypedMaxOfRateLimiter(limiters...)
}

// When asks every limiter, each of which counts, and gives the longest delay.
func (r *TypedMaxOfRateLimiter[T]) When(item T) time.Duration {
	var longest time.Duration
	for _, limiter := range r.limiters {
		longest = max(longest, limiter.When(item))
	}
	return longest
}

// NumRequeues is the largest number of the limiters.
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

// NewTypedWithMaxWaitRateLimiter makes a limiter whose delays are limiter's, at most maxDelay.
func NewTypedWithMaxWaitRateLimiter[T comparable](limiter TypedRateLimiter[T], maxDelay time.Duration) TypedRateLimiter[T] {
	return &TypedWithMaxWaitRateLimiter[T]{limiter: limiter, limit: maxDelay}
}

// NewWithMaxWaitRateLimiter is NewTypedWithMaxWaitRateLimiter of any.
//
// Deprecated: use NewTypedWithMaxWaitRateLimiter.
func NewWithMaxWaitRateLimiter(limiter RateLimiter, maxDelay time.Duration) RateLimiter {
	return NewTypedWithMaxWaitRateLimiter[any](limiter, maxDelay)
}

// When gives the inner limiter's delay, bounded.
func (r TypedWithMaxWaitRateLimiter[T]) When(item T) time.Duration {
	return min(r.limiter.When(item), r.limit)
}

// Forget makes the inner limiter forget item.
func (r TypedWithMaxWaitRateLimiter[T]) Forget(item T) { r.limiter.Forget(item) }

// NumRequeues is the inner limiter's.
func (r TypedWithMaxWaitRateLimiter[T]) NumRequeues(item T) int { return r.limiter.NumRequeues(item) }

// TypedJitteredRateLimiter makes the delays of another limiter longer by random amounts, so
// that items that failed together do not come back together. Client-go has no such limiter.
type TypedJitteredRateLimiter[T comparable] struct {
	limiter TypedRateLimiter[T]
	factor  float64
}

// NewTypedJitteredRateLimiter makes a limiter whose delays are between limiter's and (1 +
// factor) times that, evenly spread; no item waits less than limiter says. A factor of 0.1 to
// 1 is usual; one that is not positive (or not a number) adds nothing. A bound that shall hold
// for the sum goes around this limiter (NewTypedWithMaxWaitRateLimiter); one within limiter
// keeps the jitter also for items whose delay has reached it.
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
	// A long delay as a float may be a little less than the delay.
	return max(delay, time.Duration(longer))
}

// Forget makes the inner limiter forget item.
func (r *TypedJitteredRateLimiter[T]) Forget(item T) { r.limiter.Forget(item) }

// NumRequeues is the inner limiter's.
func (r *TypedJitteredRateLimiter[T]) NumRequeues(item T) int { return r.limiter.NumRequeues(item) }
