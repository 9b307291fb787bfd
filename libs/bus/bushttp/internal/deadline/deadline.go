// Package deadline is how an end of a connection over NATS bears deadlines.
package deadline

import (
	"sync"
	"time"
)

// Deadline is the time after which an operation fails. The lock of whom it belongs to guards it.
type Deadline struct {
	// Late reports whether it has passed.
	Late  bool
	timer *time.Timer
}

// Set sets the deadline; zero means never. The lock guards the deadline, and wake notifies the waiting
// goroutine when it has passed.
func (d *Deadline) Set(mu *sync.Mutex, at time.Time, wake chan struct{}) {
	mu.Lock()
	defer mu.Unlock()
	d.Stop()
	d.Late = false
	if at.IsZero() {
		return
	}
	if wait := time.Until(at); wait > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(wait, func() {
			mu.Lock()
			defer mu.Unlock()
			if d.timer == timer { // Otherwise another deadline was set meanwhile.
				d.Late = true
				Signal(wake)
			}
		})
		d.timer = timer
		return
	}
	d.Late = true
	Signal(wake)
}

// Stop stops the timer. The lock is held.
func (d *Deadline) Stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// Signal wakes whoever waits for wake, a channel with room for one.
func Signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
