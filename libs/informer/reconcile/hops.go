package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/garboard/garboard/libs/trace"
)

// stamp records when key was enqueued, or will be if after is positive, unless it already waits for
// an earlier time.
func (c *Controller[K]) stamp(key K, after time.Duration) {
	if c.cfg.Trace == nil {
		return
	}
	at := time.Now().Add(after)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, waits := c.enqueued[key]; !waits || at.Before(old) {
		c.enqueued[key] = at
	}
}

// waited returns how long key waited beyond its requested delay.
func (c *Controller[K]) waited(key K) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.enqueued[key]
	delete(c.enqueued, key)
	if !known {
		return 0
	}
	return max(time.Since(at), 0)
}

func (c *Controller[K]) hop(key K, step string, took time.Duration, detail string) {
	if c.cfg.Trace == nil {
		return
	}
	about := c.ref(key)
	c.cfg.Trace.Record(trace.Hop{
		Took: took, Service: c.cfg.Name, Step: step, Resource: about.Resource, Namespace: about.Namespace, Name: about.Name, Detail: detail,
	})
}

// traced returns a context in which writes for key belong to the trace of the write that caused the
// reconcile.
func (c *Controller[K]) traced(ctx context.Context, key K) context.Context {
	if !c.cfg.Trace.Traced() {
		return ctx
	}
	return c.cfg.Trace.Continue(ctx, c.ref(key))
}

func (c *Controller[K]) ref(key K) trace.Ref {
	text := fmt.Sprint(key)
	if namespace, name, err := SplitKey(text); err == nil {
		return trace.Ref{Resource: c.cfg.Resource, Namespace: namespace, Name: name}
	}
	return trace.Ref{Resource: c.cfg.Resource, Name: text}
}
