package bus

import (
	"math/rand/v2"
	"time"
)

const (
	// renewSoon and renewSpread bound the delay of a renewal, so that several refused subscriptions
	// need one, and several clients do not come at the same moment.
	renewSoon, renewSpread = 200 * time.Millisecond, 1800 * time.Millisecond
	// minRenewPause and maxRenewPause bound the pause between two renewals of a connection. Each
	// pause is twice the last, until no renewal was needed for four times as long.
	minRenewPause, maxRenewPause = 10 * time.Second, 5 * time.Minute
	// renewTries is how often a connection is renewed for a subscription within renewForget: a
	// right may not fit into what a connection is granted.
	renewTries, renewForget = 3, time.Hour
)

// renewals are the times at which a connection is renewed.
type renewals struct {
	last  time.Time
	pause time.Duration
}

// next returns when the connection may be renewed, for a need of this moment. random returns a
// duration below its argument.
func (r *renewals) next(now time.Time, random func(time.Duration) time.Duration) time.Time {
	soon, after := now.Add(renewSoon+random(renewSpread)), r.last.Add(r.pause)
	if after.After(soon) {
		return after.Add(random(r.pause / 4))
	}
	return soon
}

// did records a renewal.
func (r *renewals) did(now time.Time) {
	if r.pause == 0 || now.Sub(r.last) >= 4*r.pause {
		r.pause = minRenewPause
	} else {
		r.pause = min(2*r.pause, maxRenewPause)
	}
	r.last = now
}

// Renew makes the connection reconnect with its credential if the server refuses the subscription:
// a connection keeps the rights with which it was admitted. The caller knows from elsewhere that
// the apiservers allow what the server refuses. Renew returns at once and may be called often. The
// connection reconnects within 2 s, and at most once in 10 s for all subscriptions together, less
// often if that goes on. It reconnects at most three times in an hour for the same subscription.
func (s *Subscription) Renew() {
	if !s.denied.Load() || s.ended.Load() {
		return
	}
	c := s.conn
	c.mu.Lock()
	if now := time.Now(); now.Sub(s.renewedAt) >= renewForget {
		s.renewed, s.renewedAt = 0, now
	}
	s.wanted = s.renewed < renewTries
	c.mu.Unlock()
	select {
	case c.renew <- struct{}{}:
	default:
	}
}

// renewing renews the connection when subscriptions want that, until the connection ends.
func (c *Conn) renewing() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var plan renewals
	for {
		select {
		case <-c.closed:
			return
		case <-c.renew:
		}
		timer.Reset(time.Until(plan.next(time.Now(), rand.N[time.Duration])))
		select {
		case <-c.closed:
			return
		case <-timer.C:
		}
		refused := c.wanting()
		if len(refused) == 0 || !c.Connected() {
			continue // The next connection has the rights of its moment.
		}
		plan.did(time.Now())
		c.logger.Info("reconnecting to NATS for rights that this connection lacks", "subject", refused[0], "subjects", len(refused))
		c.metrics.renewals.Inc()
		c.Reconnect()
	}
}

// wanting returns the subjects of the refused subscriptions that want a renewal, and counts it for
// them.
func (c *Conn) wanting() (subjects []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for sub, s := range c.subscriptions {
		if s.wanted && s.denied.Load() {
			s.renewed++
			subjects = append(subjects, sub.Subject)
		}
		s.wanted = false
	}
	return subjects
}
