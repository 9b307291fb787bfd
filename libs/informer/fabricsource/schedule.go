package fabricsource

import (
	"time"

	"github.com/garboard/garboard/libs/fabric"
)

// The timing of the rules.
const (
	// askJitter gives reordered messages time to arrive, and spreads the asks of many informers
	// (I2).
	askJitter = 50 * time.Millisecond
	// secondAsk is when a new subscription asks once more, since interest may spread slowly between
	// servers (I1).
	secondAsk = 2 * time.Second
	// quietMin and quietMore bound the delay of a quiet turn, for views that are not the whole
	// resource (I3).
	quietMin, quietMore = 10 * time.Second, 20 * time.Second
	// adriftJitter spreads the asks of the same views when only an answer can bring them on, as
	// after a restore of etcd (I3).
	adriftJitter = time.Second
	// silence is the longest time without a progress message that is not a fault (I4).
	silence = 15 * time.Second
	// repeat is how often an ask is repeated while no progress message comes.
	repeat = 5 * time.Second
	// answerTimeout is how long an answer, or its next part, may take. A responder waits up to 3 s
	// for its feed.
	answerTimeout = 5 * time.Second
	// listTimeout is how long a list over HTTP may take.
	listTimeout = time.Minute
	// unansweredLimit is the time without any answer after which HTTP takes over.
	unansweredLimit = 30 * time.Second
	// forbiddenRepeat is the minimum time until a refused ask is repeated; jitter adds up to as
	// much again. unservedRepeat is that of a view that no message can announce, since NATS refuses
	// its subscription.
	forbiddenRepeat = 30 * time.Second
	unservedRepeat  = 5 * time.Second
	// returnAfter is how long the bus must work before the follower leaves HTTP.
	returnAfter = 10 * time.Second
	// repairAfter is the minimum time until a view with an unreadable object is read again.
	repairAfter = time.Minute
	// digestPeriod is the period in which the content is compared with etcd (I8).
	digestPeriod = 10 * time.Minute

	minAskBackoff, maxAskBackoff = 50 * time.Millisecond, 2 * time.Second

	// maxRefusals is how many asks in a row may request a revision that the responders have not
	// reached. The revision may belong to another etcd, or to a future that was lost.
	maxRefusals = 10
)

// Reasons why HTTP has taken over, as logs, metrics and reports name them.
const (
	whyUnreachable = "NATS is unreachable"
	whyUnanswered  = "no apiserver answers on NATS"
	whyDenied      = "NATS refuses the subscription"
	whyForbidden   = "the user may not read it"
	whyUnserved    = "the resource is not served"
)

// schedule is when a machine asks, and whether HTTP has taken over.
type schedule struct {
	// asking means that an ask is in flight, until deadline; current is that ask.
	asking   bool
	deadline time.Time
	current  ask

	// askAt is when the next ask is due; zero if none is planned. No ask is sent before notBefore.
	// fresh and digest are options of the next ask.
	askAt, notBefore time.Time
	fresh, digest    bool
	// quietTurn means that the planned ask is that of a quiet turn.
	quietTurn bool
	failures  int
	// refusals counts the asks for a required revision that the responders had not reached yet.
	refusals int
	// aheadSince is since when all responders are behind content that was resumed and not
	// confirmed.
	aheadSince time.Time

	secondAt, quietAt, progressDue, digestAt time.Time
	// repairAt is when the whole view is asked for, because the content is known to lack an object.
	repairAt time.Time

	// unansweredSince is the time of the first ask that has no answer yet.
	unansweredSince time.Time
	// fallback means that HTTP has taken over, after limit without an answer, or at once for another
	// reason; why says which. healthySince is since when the bus works again; after calm the bus
	// takes over.
	limit, calm  time.Duration
	fallback     bool
	why          string
	healthySince time.Time
	// deaf means that NATS refuses the subscription; HTTP takes over until it no longer does.
	deaf bool
}

// ask is a question to the apiservers.
type ask struct {
	history fabric.History
	// since is the position. Without delta, the ask is for a whole view.
	since   int64
	delta   bool
	minimum int64
	fresh   bool
	// compare means that digest is the digest of the content at since.
	compare bool
	digest  uint64
	// refresh is the number of the last Refresh call that the answer satisfies.
	refresh uint64
	// quiet means that the ask belongs to a quiet turn, awaits that it is only for a required
	// revision.
	quiet, awaits bool
}

func (m *machine) jitter() time.Duration { return m.random(askJitter) }

// plan schedules an ask after delay; an earlier planned ask stays.
func (m *machine) plan(now time.Time, delay time.Duration) {
	if at := now.Add(delay); m.askAt.IsZero() || at.Before(m.askAt) {
		m.askAt = at
	}
}

// planQuiet plans the quiet turn. It comes soon for a view that is adrift, whose position is before
// the start of the publisher's window: no future message can link to that position.
func (m *machine) planQuiet(now time.Time, start int64) {
	if m.at.Revision < start {
		if soon := now.Add(m.random(adriftJitter)); m.quietAt.IsZero() || soon.Before(m.quietAt) {
			m.quietAt = soon
		}
		return
	}
	if m.quietAt.IsZero() {
		m.quietAt = now.Add(quietMin + m.random(quietMore))
	}
}

// start begins to follow, once the subscriptions are in force (I1).
func (m *machine) start(now time.Time) {
	m.fresh = true
	m.secondAt = now.Add(secondAsk)
	m.progressDue = now.Add(silence)
	m.digestAt = now.Add(digestPeriod + m.random(digestPeriod/5))
	m.plan(now, m.jitter())
}

// disturbed handles a possible loss of messages: a reconnect, a slow handler, a refused
// subscription (I4).
func (m *machine) disturbed(now time.Time) {
	if m.asking {
		m.asking = false
		m.digest = m.digest || m.current.compare
	}
	m.fresh, m.failures, m.notBefore = true, 0, time.Time{}
	m.healthySince = time.Time{}
	m.plan(now, m.jitter())
}

// dropped handles a loss of messages but of no answer: an ask in flight goes on, and one more
// follows (I4).
func (m *machine) dropped(now time.Time) {
	if !m.asking {
		m.disturbed(now)
		return
	}
	m.fresh = true
	m.plan(now, m.jitter())
}

// alive records a progress message.
func (m *machine) alive(now time.Time) { m.progressDue = now.Add(silence) }

// heardPart records a part of the answer, and extends the deadline for the rest.
func (m *machine) heardPart(now time.Time) {
	if m.asking {
		m.deadline = now.Add(answerTimeout)
	}
}

// tick does what is due, and returns the ask to send now, if any.
func (m *machine) tick(now time.Time) (ask, bool) {
	if m.asking && !now.Before(m.deadline) {
		m.failed(now)
	}
	if due(&m.secondAt, now) {
		m.fresh = true
		m.plan(now, 0)
	}
	if !m.progressDue.IsZero() && !now.Before(m.progressDue) {
		m.progressDue = now.Add(repeat)
		if !m.asking || !m.current.fresh {
			m.fresh = true
			m.plan(now, m.jitter())
		}
	}
	if due(&m.quietAt, now) && m.synced && m.heardHistory == m.at.History && m.last > m.at.Revision {
		m.quietTurn = true
		m.plan(now, 0)
	}
	if due(&m.digestAt, now) {
		m.digestAt = now.Add(digestPeriod + m.random(digestPeriod/5))
		m.digest = true
		m.plan(now, m.jitter())
	}
	if due(&m.repairAt, now) {
		m.rebuild = true
		m.plan(now, m.jitter())
	}
	m.judge(now)
	if m.asking || m.askAt.IsZero() || now.Before(m.askAt) || now.Before(m.notBefore) {
		return ask{}, false
	}
	m.askAt = time.Time{}
	if !m.lacks() && !m.digest && !m.quietTurn {
		// The missing changes have arrived in the meantime.
		m.unansweredSince = time.Time{}
		return ask{}, false
	}
	return m.compose(now), true
}

func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || now.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}

func (m *machine) compose(now time.Time) ask {
	a := ask{fresh: m.fresh, quiet: m.quietTurn, awaits: !m.misses() && !m.digest && !m.quietTurn}
	if m.synced {
		a.history = m.at.History
		a.minimum = max(a.minimum, m.at.Revision)
		if m.heardHistory == m.at.History {
			a.minimum = max(a.minimum, m.heard, m.last)
		}
		if !m.rebuild && m.at.History != (fabric.History{}) {
			a.since, a.delta = m.at.Revision, true
			if m.digest {
				a.compare, a.digest = true, m.index.digest
			}
		}
	}
	if a.awaits {
		// Other needs must not wait for a revision that may never come.
		a.minimum = max(a.minimum, m.required)
	}
	if a.fresh {
		a.refresh = m.refreshes
	}
	m.fresh, m.digest, m.quietTurn = false, false, false
	m.asking, m.current, m.deadline = true, a, now.Add(answerTimeout)
	if m.unansweredSince.IsZero() {
		m.unansweredSince = now
	}
	m.count.asked()
	return a
}

// next returns when tick has something to do.
func (m *machine) next() time.Time {
	var next time.Time
	earliest := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if m.asking {
		earliest(m.deadline)
	} else if !m.askAt.IsZero() {
		if m.askAt.Before(m.notBefore) {
			earliest(m.notBefore)
		} else {
			earliest(m.askAt)
		}
	}
	earliest(m.secondAt)
	earliest(m.quietAt)
	earliest(m.progressDue)
	earliest(m.digestAt)
	earliest(m.repairAt)
	switch {
	case m.fallback && !m.deaf && !m.healthySince.IsZero():
		earliest(m.healthySince.Add(m.calm))
	case !m.fallback && !m.unansweredSince.IsZero():
		earliest(m.unansweredSince.Add(m.limit))
	}
	return next
}

// away records that there is no bus to begin with: HTTP takes over at once.
func (m *machine) away() { m.leave(whyUnreachable) }

// leave makes HTTP take over.
func (m *machine) leave(why string) { m.fallback, m.why, m.healthySince = true, why, time.Time{} }

// hears records whether the view can be subscribed to; every connection tries again. Answers are
// accepted either way.
func (m *machine) hears(yes bool) {
	m.deaf = !yes
	if m.deaf && m.why != whyForbidden && m.why != whyUnserved {
		m.leave(whyDenied)
	}
}

// judge chooses between the bus and HTTP (I4).
func (m *machine) judge(now time.Time) {
	if m.deaf {
		return
	}
	if !m.fallback {
		if !m.unansweredSince.IsZero() && now.Sub(m.unansweredSince) >= m.limit {
			m.leave(whyUnanswered)
		}
		return
	}
	if !m.healthySince.IsZero() && now.Sub(m.healthySince) >= m.calm {
		m.fallback, m.why, m.healthySince = false, "", time.Time{}
	}
}

// listing extends the deadline while the answer is read over HTTP.
func (m *machine) listing(now time.Time) { m.deadline = now.Add(listTimeout) }

// lacking records that the content lacks an unreadable object.
func (m *machine) lacking(now time.Time) { m.repairAt = now.Add(repairAfter + m.random(repairAfter/2)) }

// failed records that the ask had no answer.
func (m *machine) failed(now time.Time) {
	m.asking = false
	m.fresh = m.fresh || m.current.fresh
	m.digest = m.digest || m.current.compare
	m.quietTurn = m.quietTurn || m.current.quiet
	m.healthySince = time.Time{}
	m.retry(now)
}

// retry plans the ask again, with exponential back-off and jitter.
func (m *machine) retry(now time.Time) {
	wait := maxAskBackoff
	if m.failures < 5 {
		wait = minAskBackoff << m.failures
	}
	m.failures++
	m.notBefore = now.Add(wait/2 + m.random(wait/2))
	m.plan(now, 0)
}

// notYet records that the responder's feed is behind; another responder's may not be (R1).
func (m *machine) notYet(now time.Time) {
	m.failed(now)
	m.unansweredSince = time.Time{}
	if m.current.awaits {
		if m.refusals++; m.refusals >= maxRefusals {
			m.required, m.refusals = 0, 0
		}
	}
}

// lags records the revision of a responder that is behind. If all responders stay behind content
// that was resumed and not confirmed, the machine forgets that content: perhaps etcd was set back,
// and no apiserver is left that knew. A fresh view is never older than etcd.
func (m *machine) lags(now time.Time, h fabric.History, revision int64) {
	switch {
	case !m.unconfirmed || h != m.at.History || revision <= 0:
	case revision >= m.at.Revision:
		m.aheadSince = time.Time{}
	case m.aheadSince.IsZero():
		m.aheadSince = now
	case now.Sub(m.aheadSince) >= m.limit:
		m.forget()
		m.fresh = true
	}
}

// refused records that the client may not read the view over the bus, or that the view is not
// served. HTTP takes over and reports the reason.
func (m *machine) refused(now time.Time) {
	m.failed(now)
	m.unansweredSince = time.Time{}
	repeat := forbiddenRepeat
	if m.leave(whyForbidden); m.unserved {
		if m.why = whyUnserved; m.deaf {
			repeat = unservedRepeat
		}
	}
	m.notBefore = now.Add(repeat + m.random(repeat))
}

// readable records that HTTP shows the view. If an ask was refused before, it need not be any more.
func (m *machine) readable(now time.Time) {
	if !m.asking && (m.why == whyForbidden || m.why == whyUnserved) {
		m.fresh, m.notBefore = true, time.Time{}
		m.plan(now, m.jitter())
	}
}

// answered ends an ask that had a complete answer; moved reports whether the machine moved on.
func (m *machine) answered(now time.Time, moved bool) {
	m.asking, m.unserved = false, false
	m.unansweredSince, m.refusals = time.Time{}, 0
	if m.fallback && m.healthySince.IsZero() {
		m.healthySince = now
		if m.why != whyUnreachable && m.why != whyUnanswered {
			m.healthySince = now.Add(-m.calm) // The bus only refused the view and was never at fault.
		}
	}
	if m.deaf {
		m.why = whyDenied
	}
	if !m.lacks() {
		m.failures, m.notBefore = 0, time.Time{}
		return
	}
	if moved {
		m.failures = 0
		m.plan(now, m.jitter())
		return
	}
	m.retry(now)
}
