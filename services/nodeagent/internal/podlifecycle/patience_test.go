package podlifecycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnhurried: a call outlives its pod's context by at most patience, and a call that ends
// earlier leaves nothing behind.
func TestUnhurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		slow, endSlow := unhurried(ctx)
		defer endSlow()
		_, endQuick := unhurried(ctx)
		<-time.After(time.Hour)
		if slow.Err() != nil {
			t.Fatal("a call is cut off although its pod lives")
		}
		cancel()
		endQuick()
		<-time.After(patience - time.Millisecond)
		synctest.Wait()
		if slow.Err() != nil {
			t.Error("a call is cut off at once")
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		if slow.Err() == nil {
			t.Error("a call is never cut off")
		}
	})
}
