package podlifecycle

import (
	"context"
	"time"
)

// patience is how long a call that creates something in the runtime may continue after its pod was
// told to terminate.
const patience = 10 * time.Second

// unhurried returns the context for a call that creates something in the runtime. A runtime that is
// interrupted may keep a half-created object: containerd 1.6 keeps a task whose container it
// considers ended, and which it can then neither stop nor remove. So the call outlives ctx, by at
// most patience. The caller must call the returned function when the call has returned.
func unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	calm, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-calm.Done():
		case <-timer.C:
			cancel()
		}
	})
	return calm, func() {
		stop()
		cancel()
	}
}
