package contention

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
)

// SlowedError is the error of a write that was not sent, since something undoes the writes for its key.
type SlowedError struct {
	// After is how long the reconcile should wait.
	After time.Duration
}

func (e *SlowedError) Error() string {
	return fmt.Sprintf("not written: something undoes what this controller writes, at most %d times a minute for one key; trying again in %v",
		burst+perMinute, e.After.Round(time.Millisecond))
}

// IsSlowed reports whether an error is, or wraps, a SlowedError. Such a write was not tried, so no Event or
// condition should call it a failure.
func IsSlowed(err error) bool {
	_, slowed := errors.AsType[*SlowedError](err)
	return slowed
}

// Counting returns a client that counts its writes for the key whose reconcile makes them, found by the
// context from Begin. Writes beyond what contention allows fail with a SlowedError. With any other context
// it behaves like c.
func Counting(c client.Interface) client.Interface { return counting{c} }

type counting struct{ client.Interface }

// Do makes a call, and counts it if it is a write.
func (c counting) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	a, ok := ctx.Value(contextKey{}).(*attempt)
	if !ok || !call.Writes() {
		return c.Interface.Do(ctx, call, into)
	}
	w := a.writes()
	which := object{reflect.TypeOf(call.Kind.New()), call.Namespace, call.Name}
	if err := w.before(call, which); err != nil {
		return err
	}
	err := c.Interface.Do(ctx, call, into)
	if err == nil && into != nil {
		w.after(call, which, into)
	}
	return err
}
