package forward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// Query is a question to other servers. Its class is IN.
type Query struct {
	// Name and Type are what is asked for.
	Name wire.Name
	Type uint16
	// DNSSEC asks for signatures; CheckingDisabled for answers that fail validation, too.
	DNSSEC, CheckingDisabled bool
}

// Answer is another server's answer.
type Answer struct {
	stored *wire.Stored
	age    time.Duration
	stale  uint32
}

// Rcode is the answer's code.
func (a Answer) Rcode() int { return a.stored.Rcode() }

// Answers returns the number of records in its answer section.
func (a Answer) Answers() int { return a.stored.Answers() }

// AppendTo appends the answer as a message to out. The question must be for the same name and type.
func (a Answer) AppendTo(out []byte, q *wire.Question, limit int) []byte {
	return a.stored.AppendTo(out, q, limit, a.age, a.stale)
}

// TTL returns the shortest time to live of its records in seconds, but at most longest.
func (a Answer) TTL(longest uint32) uint32 { return a.stored.TTL(longest, a.age, a.stale) }

// Write writes the answer's records to the answer to another question; those that are no answers only
// if others is set.
func (a Answer) Write(b *wire.Builder, others bool) { a.stored.Write(b, others, a.age, a.stale) }

// ErrBusy is the fault of a question that comes while too many others are in flight.
var ErrBusy = errors.New("too many questions in flight")

// maxKey is the length of the longest key of the cache, in bytes.
const maxKey = 255 + 3

// An entry is renewed when it has answered popular questions and a part of its time is left.
const (
	popular    = 2
	renewalPer = 10
)

// staleAfter is how long servers may take while an expired answer is at hand.
const staleAfter = 500 * time.Millisecond

// flight is a question to servers, for which any number of askers wait.
type flight struct {
	key   string
	query query
	done  chan struct{} // closed when answer or err is set
	// answer is what a server said, whatever it was.
	answer *wire.Stored
	err    error
}

// Cached returns the answer to a question if it is in the cache and has not expired. It never waits.
func (f *Forwarder) Cached(q *Query) (Answer, bool) {
	var space [maxKey]byte
	key := appendKey(space[:0], &q.Name, q.Type, q.DNSSEC, q.CheckingDisabled)
	e := f.cache.get(key)
	now := time.Now()
	if e == nil || !e.fresh(now) {
		return Answer{}, false
	}
	return f.hit(e, key, q, now), true
}

// hit returns the answer of an entry that has not expired, and has it renewed if it soon will.
func (f *Forwarder) hit(e *entry, key []byte, q *Query, now time.Time) Answer {
	f.metrics.asked.Inc()
	f.metrics.hit(e.denial)
	age := now.Sub(e.at)
	if e.hits.Add(1) >= popular && (e.lifetime-age)*renewalPer < e.lifetime && e.renewing.CompareAndSwap(false, true) {
		if _, err := f.join(key, q); err == nil {
			f.metrics.prefetched.Inc()
		}
	}
	return Answer{stored: e.answer, age: age}
}

// Resolve answers a question from the cache, or asks servers. It returns an error if none answers.
func (f *Forwarder) Resolve(ctx context.Context, q *Query) (Answer, error) {
	var space [maxKey]byte
	key := appendKey(space[:0], &q.Name, q.Type, q.DNSSEC, q.CheckingDisabled)
	e := f.cache.get(key)
	now := time.Now()
	if e != nil && e.fresh(now) {
		return f.hit(e, key, q, now), nil
	}
	f.metrics.asked.Inc()
	f.metrics.misses.Inc()
	stale := e != nil && e.usable(now) && informative(e.answer.Rcode())
	fl, err := f.join(key, q)
	if err == nil {
		err = f.wait(ctx, fl, stale, f.routes.Load().serversFor(&q.Name).down())
	}
	switch {
	case err == nil && (informative(fl.answer.Rcode()) || !stale):
		return Answer{stored: fl.answer}, nil
	case stale:
		f.metrics.stale.Inc()
		return Answer{stored: e.answer, stale: staleTTL}, nil
	}
	return Answer{}, fmt.Errorf("resolving %s: %w", q.Name.String(), err)
}

// errSlow is the reason to serve an expired answer instead of waiting for servers.
var errSlow = errors.New("no server has answered yet")

// wait waits for a flight. If an expired answer is at hand, it waits for a short time only, and not
// at all if no server is expected to answer.
func (f *Forwarder) wait(ctx context.Context, fl *flight, stale, down bool) error {
	patience := askTime + time.Second
	if stale {
		patience = staleAfter
	}
	if stale && down {
		return errSlow
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-fl.done:
		return fl.err
	case <-timer.C:
		return errSlow
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ended:
		return errEnded
	}
}

// join returns the flight of a question, which it starts unless it is under way.
func (f *Forwarder) join(key []byte, q *Query) (*flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.flights[string(key)]; fl != nil {
		return fl, nil
	}
	if len(f.flights) >= maxFlights {
		f.metrics.rejected.Inc()
		return nil, ErrBusy
	}
	fl := &flight{key: string(key), done: make(chan struct{}), query: query{
		name: q.Name, kind: q.Type, dnssec: q.DNSSEC, checking: q.CheckingDisabled,
	}}
	select {
	case f.starts <- fl:
	default: // Run has ended, and left what it did not start.
		return nil, ErrBusy
	}
	f.flights[fl.key] = fl
	return fl, nil
}

// fly asks the servers, and keeps the answer.
func (f *Forwarder) fly(ctx context.Context, fl *flight) {
	answer, err := f.ask(ctx, f.routes.Load().serversFor(&fl.query.name), &fl.query)
	if err == nil {
		fl.answer, err = wire.Store(answer, maxKept)
	}
	if err != nil {
		fl.err = err
	} else if e := newEntry(fl.key, answer, fl.answer); e.lifetime > 0 && !f.better(e) {
		f.cache.put(e)
	}
	f.mu.Lock()
	delete(f.flights, fl.key)
	f.mu.Unlock()
	close(fl.done)
}

// better reports whether the cache has an answer that says more than a new one.
func (f *Forwarder) better(e *entry) bool {
	if informative(e.answer.Rcode()) {
		return false
	}
	old := f.cache.get([]byte(e.key))
	return old != nil && informative(old.answer.Rcode()) && old.usable(e.at)
}

// informative reports whether a code says something about the name, not about a server.
func informative(rcode int) bool { return rcode == dns.RcodeSuccess || rcode == dns.RcodeNameError }

// newEntry returns the entry of an answer, with the time for which it is kept: as its records say,
// or its SOA record if it is negative. An answer that is not whole is not kept.
func newEntry(key string, answer *dns.Msg, stored *wire.Stored) *entry {
	e := &entry{key: key, answer: stored, at: time.Now()}
	e.denial = answer.Rcode != dns.RcodeSuccess || len(answer.Answer) == 0
	longest, shortest := maxKept, time.Duration(-1)
	lower := func(ttl uint32) {
		if ttl > 1<<31-1 {
			ttl = 0
		}
		if d := time.Duration(ttl) * time.Second; shortest < 0 || d < shortest {
			shortest = d
		}
	}
	for _, rr := range answer.Answer {
		lower(rr.Header().Ttl)
	}
	for _, rr := range answer.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			lower(min(soa.Hdr.Ttl, soa.Minttl))
		}
	}
	if e.denial {
		longest = maxDenied
	}
	if answer.Truncated {
		return e
	}
	e.lifetime = min(max(shortest, minKept), longest)
	if !informative(answer.Rcode) {
		e.lifetime = minKept
	}
	return e
}
