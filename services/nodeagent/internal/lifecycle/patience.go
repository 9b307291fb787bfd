package lifecycle

import (
	"context"
	"time"
)

// patience is how long a call that makes something in the runtime may go on after its pod was
// told to end.
const patience = 10 * time.Second

// unhurried gives the context of a call that makes something in the runtime. A runtime that is
// interrupted there may keep half of it: containerd 1.6 keeps a task whose container it takes for
// ended, and which it can then neither stop nor remove. So the call outlives ctx, for patience at
// most. The caller calls the function when the call has returned.
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
