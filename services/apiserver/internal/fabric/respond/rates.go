package respond

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates bounds how often each user asks. Places alone do not: what is refused for want of one still
// goes through the buffer that all users share. The zero value is ready.
type rates struct {
	mu    sync.Mutex
	users map[string]*userRate
}

// userRate is of one user: of its asks, and of being told that there are too many.
type userRate struct{ asks, told *rate.Limiter }

// allow reports whether a user may ask now; if not, whether it is to be told.
func (r *rates) allow(user string, now time.Time) (ok, tell bool) {
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

// sweep forgets users that have not asked for so long that they may ask as much as at first.
func (r *rates) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for user, of := range r.users {
		if of.asks.TokensAt(now) >= askBurst && of.told.TokensAt(now) >= toldRate {
			delete(r.users, user)
		}
	}
}
