package respond

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates bounds how often each user asks. The limits on asks in flight are not enough: refused asks
// still pass through the buffer that all users share. The zero value is ready to use.
type rates struct {
	mu    sync.Mutex
	users map[string]*userRate
}

// userRate limits one user: its asks, and the answers that say there are too many.
type userRate struct{ asks, told *rate.Limiter }

// allow reports whether a user may ask now; if not, notify reports whether to send it an answer
// that says so.
func (r *rates) allow(user string, now time.Time) (ok, notify bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.users[user]
	if of == nil {
		if r.users == nil {
			r.users = map[string]*userRate{}
		}
		of = &userRate{asks: rate.NewLimiter(askRate, askBurst), told: rate.NewLimiter(toldRate, toldRate)}
		r.users[user] = of
	}
	if of.asks.AllowN(now, 1) {
		return true, false
	}
	return false, of.told.AllowN(now, 1)
}

// sweep forgets users that have not asked for so long that their limits are full again.
func (r *rates) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for user, of := range r.users {
		if of.asks.TokensAt(now) >= askBurst && of.told.TokensAt(now) >= toldRate {
			delete(r.users, user)
		}
	}
}
