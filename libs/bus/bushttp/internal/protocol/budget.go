package protocol

import "sync/atomic"

// MinWindow is how many bytes the writer of a body may always be ahead of its reader, so that no body stands still
// because others are not read.
const MinWindow = 32 << 10

// DefaultBudget is the limit of a Budget that nothing else sets, in bytes.
const DefaultBudget = 32 << 20

// Budget bounds what the readers of bodies hold together: the bytes that they granted and did not read yet. Any
// goroutine may use it.
type Budget struct {
	limit int64
	held  atomic.Int64
}

// NewBudget returns a Budget of limit bytes, in addition to MinWindow for each body.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Window returns how far the writer of a body may be ahead of its reader at this moment, in bytes: from MinWindow to
// MaxWindow.
func (b *Budget) Window() uint64 {
	left := (b.limit - b.held.Load()) / 4
	return uint64(min(max(left, MinWindow), MaxWindow))
}

// Hold records that a reader holds other bytes than before. It returns now.
func (b *Budget) Hold(before, now uint64) uint64 {
	if now != before {
		b.held.Add(int64(now) - int64(before))
	}
	return now
}

// Held returns how many bytes the readers hold.
func (b *Budget) Held() int64 { return b.held.Load() }
