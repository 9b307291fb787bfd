package config

import (
	"errors"
	"fmt"
	"time"
)

// Defaults of Log.
const (
	DefaultLogReplicas = 1
	DefaultLogMaxAge   = 24 * time.Hour
	DefaultLogMaxBytes = 256 << 20
)

// maxLogReplicas is JetStream's own bound.
const maxLogReplicas = 5

// Log bounds the watch messages that JetStream keeps. The log is for readers of history and
// saves a new publisher some work; nothing else needs it. All apiservers should use the same
// values, since the publisher applies its own.
type Log struct {
	// Replicas is how many NATS servers keep the log, 1 to 5; DefaultLogReplicas if 0. More than
	// one needs a cluster of as many servers.
	Replicas int
	// MaxAge is how long a message is kept; DefaultLogMaxAge if 0.
	MaxAge time.Duration
	// MaxBytes is how many bytes are kept for each etcd cluster before the oldest are dropped;
	// DefaultLogMaxBytes if 0.
	MaxBytes int64
}

// complete sets defaults and returns everything that is wrong.
func (c *Log) complete() error {
	var errs []error
	if c.Replicas < 0 || c.Replicas > maxLogReplicas {
		errs = append(errs, fmt.Errorf("the log of watch messages has %d replicas, must be 1 to %d", c.Replicas, maxLogReplicas))
	}
	// JetStream has a minimum of 100 ms.
	if c.MaxAge < 0 || c.MaxAge > 0 && c.MaxAge < time.Second {
		errs = append(errs, fmt.Errorf("the log of watch messages is kept for %v, must be at least a second", c.MaxAge))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("the log of watch messages has %d bytes, must not be negative", c.MaxBytes))
	}
	if c.Replicas == 0 {
		c.Replicas = DefaultLogReplicas
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultLogMaxAge
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultLogMaxBytes
	}
	return errors.Join(errs...)
}
