package fabricsource

import "time"

// Times of the rules.
const (
	// askJitter lets reordering heal, and spreads the asks of many informers: I2.
	askJitter = 50 * time.Millisecond
	// secondAsk is when a new subscription asks once more, since interest may spread slowly
	// between servers: I1.
	secondAsk = 2 * time.Second
	// quietMin and quietMore bound the quiet turn of views that are not the whole resource: I3.
	quietMin, quietMore = 10 * time.Second, 20 * time.Second
	// adriftJitter spreads the asks of the same views when nothing but an answer can bring them
	// on, as after a restore of etcd: I3.
	adriftJitter = time.Second
	// silence is how long there may be no progress message: I4.
	silence = 15 * time.Second
	// repeat is how often an ask is made again while there is none.
	repeat = 5 * time.Second
	// answerTimeout is how long an answer, or its next part, may take. A responder waits up
	// to 3 s for its feed.
	answerTimeout = 5 * time.Second
	// listTimeout is how long a list over HTTP may take.
	listTimeout = time.Minute
	// unansweredLimit is after how long without any answer HTTP takes over.
	unansweredLimit = 30 * time.Second
	// forbiddenRepeat is how often one who is refused asks again.
	forbiddenRepeat = 30 * time.Second
	// returnAfter is how long the bus must work before HTTP is left again.
	returnAfter = 10 * time.Second
	// repairAfter is when a view is read again that holds an object which nobody could read.
	repairAfter = time.Minute
	// digestPeriod is how often the content is compared: I8.
	digestPeriod = 10 * time.Minute

	minAskBackoff, maxAskBackoff = 50 * time.Millisecond, 2 * time.Second

	// outlived is for how long there is no word but of an older history before what is known is
	// given up: longer than clocks are apart and than a server takes to learn of a newer history.
	outlived = time.Minute

	// maxRefusals is how often in a row a revision is asked for that the responders have not
	// come to. It may be one of another etcd, or of a future that was lost.
	maxRefusals = 10
)

// schedule is when a machine asks, and whether HTTP has taken over.
type schedule struct {
	// asking says that an ask is out, until deadline; current is that ask.
	asking   bool
	deadline time.Time
	current  ask

	// askAt is when the next ask is due; zero if none is planned. Nothing is asked before
	// notBefore. fresh and digest are asked of the next ask.
	askAt, notBefore time.Time
	fresh, digest    bool
	// quietTurn says that the planned ask is that of a quiet turn.
	quietTurn bool
	failures  int
	// refusals counts the asks for what Require asked for that came too early.
	refusals int
	// aheadSince is since when all responders are before content that was resumed and not
	// confirmed.
	aheadSince time.Time

	secondAt, quietAt, progressDue, digestAt time.Time
	// repairAt is when the whole view is asked for, since the content is known to lack something.
	repairAt time.Time

	// unansweredSince is when the first ask was made that has no answer yet.
	unansweredSince time.Time
	// fallback says that HTTP has taken over, after limit without an answer; healthySince
	// since when the bus works again, which it must do for calm.
	limit, calm  time.Duration
	fallback     bool
	healthySince time.Time
	// deaf says that NATS refuses the subscription: HTTP takes over for as long.
	deaf bool
}

// ask is a question to the apiservers.
type ask struct {
	history history
	// since is the position; a whole view is asked for unless delta.
	since   int64
	delta   bool
	minimum int64
	fresh   bool
	// compare says that digest is that of the content at since.
	compare bool
	digest  uint64
	// refresh is up to which of those who want fresh content have it with the answer.
	refresh uint64
	// quiet says that it is that of a quiet turn, awaits that it is only for what Require asked
	// for.
	quiet, awaits bool
}

func (m *machine) jitter() time.Duration { return m.random(askJitter) }

// plan has an ask made after delay, or earlier if one is due earlier.
func (m *machine) plan(now time.Time, delay time.Duration) {
	if at := now.Add(delay); m.askAt.IsZero() || at.Before(m.askAt) {
		m.askAt = at
	}
}

// planQuiet plans the quiet turn. It comes soon for a view that is adrift, whose position is
// before the start of the publisher's window: no message that is still to come links to it.
func (m *machine) planQuiet(now time.Time, start int64) {
	if m.position < start {
		if soon := now.Add(m.random(adriftJitter)); m.quietAt.IsZero() || soon.Before(m.quietAt) {
			m.quietAt = soon
		}
		return
	}
	if m.quietAt.IsZero() {
		m.quietAt = now.Add(quietMin + m.random(quietMore))
	}
}

// start begins to follow, after the subscriptions are in force: I1.
func (m *machine) start(now time.Time) {
	m.fresh = true
	m.secondAt = now.Add(secondAsk)
	m.progressDue = now.Add(silence)
	m.digestAt = now.Add(digestPeriod + m.random(digestPeriod/5))
	m.plan(now, m.jitter())
}

// disturbed says that messages may have been lost: a reconnect, a slow handler, a refused
// subscription. I4.
func (m *machine) disturbed(now time.Time) {
	if m.asking {
		m.asking = false
		m.digest = m.digest || m.current.compare
	}
	m.fresh, m.failures, m.notBefore = true, 0, time.Time{}
	m.healthySince = time.Time{}
	m.plan(now, m.jitter())
}

// dropped says that messages were lost, but no answer: who asks has one, and asks once more. I4.
func (m *machine) dropped(now time.Time) {
	if !m.asking {
		m.disturbed(now)
		return
	}
	m.fresh = true
	m.plan(now, m.jitter())
}

// alive notes a progress message.
func (m *machine) alive(now time.Time) { m.progressDue = now.Add(silence) }

// heardPart notes a part of the answer, so that the rest has its time too.
func (m *machine) heardPart(now time.Time) {
	if m.asking {
		m.deadline = now.Add(answerTimeout)
	}
}

// tick does what is due, and gives the ask to be sent now, if any.
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
	if due(&m.quietAt, now) && m.synced && m.heardHistory == m.history && m.last > m.position {
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
		// What was missing has come meanwhile.
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
		a.history = m.history
		a.minimum = max(a.minimum, m.position)
		if m.heardHistory == m.history {
			a.minimum = max(a.minimum, m.heard, m.last)
		}
		if !m.rebuild && m.history != (history{}) {
			a.since, a.delta = m.position, true
			if m.digest {
				a.compare, a.digest = true, m.index.digest
			}
		}
	}
	if a.awaits {
		// Nothing else must wait for a revision that may never come.
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

// next is when tick has something to do.
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

// away says that there is no bus to begin with: HTTP takes over without a wait.
func (m *machine) away() { m.fallback, m.healthySince = true, time.Time{} }

// hears says whether the view can be subscribed to, which is asked anew at each connection.
// Answers are taken all the same.
func (m *machine) hears(yes bool) {
	m.deaf = !yes
	if m.deaf {
		m.fallback, m.healthySince = true, time.Time{}
	}
}

// judge decides between the bus and HTTP: I4.
func (m *machine) judge(now time.Time) {
	if m.deaf {
		return
	}
	if !m.fallback {
		if !m.unansweredSince.IsZero() && now.Sub(m.unansweredSince) >= m.limit {
			m.fallback, m.healthySince = true, time.Time{}
		}
		return
	}
	if !m.healthySince.IsZero() && now.Sub(m.healthySince) >= m.calm {
		m.fallback, m.healthySince = false, time.Time{}
	}
}

// listing says that the answer is being read over HTTP, which takes its time.
func (m *machine) listing(now time.Time) { m.deadline = now.Add(listTimeout) }

// lacking says that the content lacks an object that nobody could read.
func (m *machine) lacking(now time.Time) { m.repairAt = now.Add(repairAfter + m.random(repairAfter/2)) }

// failed says that the ask had no answer.
func (m *machine) failed(now time.Time) {
	m.asking = false
	m.fresh = m.fresh || m.current.fresh
	m.digest = m.digest || m.current.compare
	m.quietTurn = m.quietTurn || m.current.quiet
	m.healthySince = time.Time{}
	m.retry(now)
}

// retry plans the ask again, later each time.
func (m *machine) retry(now time.Time) {
	wait := maxAskBackoff
	if m.failures < 5 {
		wait = minAskBackoff << m.failures
	}
	m.failures++
	m.notBefore = now.Add(wait/2 + m.random(wait/2))
	m.plan(now, 0)
}

// notYet says that the responder's feed is behind; another one may not be. R1.
func (m *machine) notYet(now time.Time) {
	m.failed(now)
	m.unansweredSince = time.Time{}
	if m.current.awaits {
		if m.refusals++; m.refusals >= maxRefusals {
			m.required, m.refusals = 0, 0
		}
	}
}

// lags says how far a responder is that is not there yet. If all of them are for long before
// content that was resumed and not confirmed, it is forgotten: perhaps etcd was set back, and
// nobody is left who could know. A fresh view is never older than etcd.
func (m *machine) lags(now time.Time, h history, revision int64) {
	switch {
	case !m.unconfirmed || h != m.history || revision <= 0:
	case revision >= m.position:
		m.aheadSince = time.Time{}
	case m.aheadSince.IsZero():
		m.aheadSince = now
	case now.Sub(m.aheadSince) >= m.limit:
		m.forget()
		m.fresh = true
	}
}

// refused says that the asker may not read the view over the bus, or that it is not served:
// HTTP takes over and gives the reason.
func (m *machine) refused(now time.Time) {
	m.failed(now)
	m.unansweredSince = time.Time{}
	m.fallback = true
	m.notBefore = now.Add(forbiddenRepeat + m.random(forbiddenRepeat))
}

// answered ends an ask that had a full answer, which moved the machine on or not.
func (m *machine) answered(now time.Time, moved bool) {
	m.asking = false
	m.unansweredSince, m.refusals = time.Time{}, 0
	if m.fallback && m.healthySince.IsZero() {
		m.healthySince = now
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
