package command

import (
	"context"
	"time"
)

// Pause waits for d, or returns ctx's error if that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
