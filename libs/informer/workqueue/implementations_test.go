package workqueue_test

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	upstream "k8s.io/client-go/util/workqueue"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// parallelism are the arguments of ParallelizeUntil.
type parallelism struct {
	ctx                    context.Context
	workers, pieces, chunk int
}

func ours() implementation {
	type limiter = workqueue.TypedRateLimiter[string]
	return implementation{
		ours: true,
		queue: func(s settings) workqueue.TypedInterface[string] {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
				Name: s.name, MetricsProvider: s.ourProvider(), Clock: s.clock, Queue: s.order,
			})
		},
		delaying: func(s settings) workqueue.TypedDelayingInterface[string] {
			return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Name: s.name, MetricsProvider: s.ourProvider(), Clock: s.clock, Queue: s.beneath,
			})
		},
		limiting: func(l limiter, s settings) workqueue.TypedRateLimitingInterface[string] {
			return workqueue.NewTypedRateLimitingQueueWithConfig(l, workqueue.TypedRateLimitingQueueConfig[string]{
				Name: s.name, MetricsProvider: s.ourProvider(), Clock: s.clock, DelayingQueue: s.delaying,
			})
		},
		exponential: workqueue.NewTypedItemExponentialFailureRateLimiter[string],
		fastSlow:    workqueue.NewTypedItemFastSlowRateLimiter[string],
		bucket: func(limit float64, burst int) limiter {
			return &workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(rate.Limit(limit), burst)}
		},
		maxOf:       workqueue.NewTypedMaxOfRateLimiter[string],
		maxWait:     workqueue.NewTypedWithMaxWaitRateLimiter[string],
		controllers: workqueue.DefaultTypedControllerRateLimiter[string],
		items:       workqueue.DefaultTypedItemBasedRateLimiter[string],
		parallelize: func(p parallelism, do func(int)) {
			workqueue.ParallelizeUntil(p.ctx, p.workers, p.pieces, do, workqueue.WithChunkSize(p.chunk))
		},
		setProvider: func(r *recorded) { workqueue.SetProvider(r) },
		makeUntypeds: func() []workqueue.TypedInterface[any] {
			return []workqueue.TypedInterface[any]{
				workqueue.New(), workqueue.NewNamed("n"), workqueue.NewWithConfig(workqueue.QueueConfig{}),
				workqueue.NewDelayingQueue(), workqueue.NewNamedDelayingQueue("n"),
				workqueue.NewRateLimitingQueue(workqueue.DefaultControllerRateLimiter()),
				workqueue.NewNamedRateLimitingQueue(workqueue.DefaultItemBasedRateLimiter(), "n"),
			}
		},
		defaultsQueue: workqueue.DefaultQueue[string],
	}
}

func clientGo() implementation {
	type limiter = workqueue.TypedRateLimiter[string]
	return implementation{
		queue: func(s settings) workqueue.TypedInterface[string] {
			return upstream.NewTypedWithConfig(upstream.TypedQueueConfig[string]{
				Name: s.name, MetricsProvider: s.theirProvider(), Clock: s.clock, Queue: s.order,
			})
		},
		delaying: func(s settings) workqueue.TypedDelayingInterface[string] {
			return upstream.NewTypedDelayingQueueWithConfig(upstream.TypedDelayingQueueConfig[string]{
				Name: s.name, MetricsProvider: s.theirProvider(), Clock: s.clock, Queue: s.beneath,
			})
		},
		limiting: func(l limiter, s settings) workqueue.TypedRateLimitingInterface[string] {
			return upstream.NewTypedRateLimitingQueueWithConfig[string](l, upstream.TypedRateLimitingQueueConfig[string]{
				Name: s.name, MetricsProvider: s.theirProvider(), Clock: s.clock, DelayingQueue: s.delaying,
			})
		},
		exponential: func(base, limit time.Duration) limiter {
			return upstream.NewTypedItemExponentialFailureRateLimiter[string](base, limit)
		},
		fastSlow: func(fast, slow time.Duration, attempts int) limiter {
			return upstream.NewTypedItemFastSlowRateLimiter[string](fast, slow, attempts)
		},
		bucket: func(limit float64, burst int) limiter {
			return &upstream.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(rate.Limit(limit), burst)}
		},
		maxOf: func(limiters ...limiter) limiter {
			var converted []upstream.TypedRateLimiter[string]
			for _, l := range limiters {
				converted = append(converted, l)
			}
			return upstream.NewTypedMaxOfRateLimiter(converted...)
		},
		maxWait: func(l limiter, limit time.Duration) limiter {
			return upstream.NewTypedWithMaxWaitRateLimiter[string](l, limit)
		},
		controllers: func() limiter { return upstream.DefaultTypedControllerRateLimiter[string]() },
		items:       func() limiter { return upstream.DefaultTypedItemBasedRateLimiter[string]() },
		parallelize: func(p parallelism, do func(int)) {
			upstream.ParallelizeUntil(p.ctx, p.workers, p.pieces, do, upstream.WithChunkSize(p.chunk))
		},
		setProvider:   func(r *recorded) { upstream.SetProvider(theirs{r}) },
		makeUntypeds:  untypedOfClientGo,
		defaultsQueue: func() workqueue.Queue[string] { return upstream.DefaultQueue[string]() },
	}
}

// untypedOfClientGo creates queues by the deprecated names.
//
//nolint:staticcheck // item 17 is about the deprecated names
func untypedOfClientGo() []workqueue.TypedInterface[any] {
	return []workqueue.TypedInterface[any]{
		upstream.New(), upstream.NewNamed("n"), upstream.NewWithConfig(upstream.QueueConfig{}),
		upstream.NewDelayingQueue(), upstream.NewNamedDelayingQueue("n"),
		upstream.NewRateLimitingQueue(upstream.DefaultControllerRateLimiter()),
		upstream.NewNamedRateLimitingQueue(upstream.DefaultItemBasedRateLimiter(), "n"),
	}
}
