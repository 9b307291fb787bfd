package controller

import (
	"context"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/informer/reconcile"
)

// busyDelay is how long a key waits while another worker has its object under another key.
const busyDelay = 10 * time.Millisecond

// object names what a key stands for, whatever its root.
type object struct{ namespace, name string }

// alone returns a reconcile that no two workers run for one object. The queue sees to that for equal
// keys, but an object can have two for a while: one from before it existed, without a root, or of an
// object of the same name that is gone.
func alone(next reconcile.Func[Key]) reconcile.Func[Key] {
	var mu sync.Mutex
	busy := map[object]struct{}{}
	return func(ctx context.Context, key Key) (reconcile.Result, error) {
		this := object{key.Namespace, key.Name}
		mu.Lock()
		_, taken := busy[this]
		if !taken {
			busy[this] = struct{}{}
		}
		mu.Unlock()
		if taken {
			return reconcile.Result{RequeueAfter: busyDelay}, nil
		}
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			delete(busy, this)
		}()
		return next(ctx, key)
	}
}
