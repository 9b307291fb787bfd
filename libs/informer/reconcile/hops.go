package reconcile

import (
	"fmt"
	"time"

	"github.com/garboard/garboard/libs/trace"
)

// stamp notes when key was enqueued, unless it waits already.
func (c *Controller[K]) stamp(key K, after time.Duration) {
	if c.cfg.Trace == nil {
		return
	}
	at := time.Now().Add(max(after, 0))
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, waits := c.enqueued[key]; !waits || at.Before(old) {
		c.enqueued[key] = at
	}
}

// waited is how long key waited beyond the time for which it was asked.
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
	hop := trace.Hop{Took: took, Service: c.cfg.Name, Step: step, Resource: c.cfg.Resource, Name: fmt.Sprint(key), Detail: detail}
	if s, ok := any(key).(string); ok {
		if namespace, name, err := SplitKey(s); err == nil {
			hop.Namespace, hop.Name = namespace, name
		}
	}
	c.cfg.Trace.Record(hop)
}
