package forward

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// Bounds of the cache: its parts, which have locks of their own, and what all of them keep.
const (
	parts      = 16
	maxEntries = 16 << 10
	maxBytes   = 16 << 20
)

// How long answers are kept.
const (
	// minKept is the shortest time, as CoreDNS has it: servers that say 0 would be asked for ever.
	minKept = 5 * time.Second
	// maxKept is the longest time of a positive answer, maxDenied that of a negative one.
	maxKept   = time.Hour
	maxDenied = 30 * time.Minute
	// staleFor is how long an expired answer can be served, and staleTTL for how many seconds each
	// time (RFC 8767).
	staleFor = time.Hour
	staleTTL = 30
)

// entry is an answer in the cache.
type entry struct {
	key    string
	answer *wire.Stored
	// denial reports whether the answer is negative.
	denial   bool
	at       time.Time
	lifetime time.Duration
	// hits counts the questions that it has answered; renewing is set once it is to be renewed.
	hits     atomic.Uint32
	renewing atomic.Bool
	// Neighbours in the order of use.
	before, after *entry
}

// fresh reports whether the entry has not expired.
func (e *entry) fresh(now time.Time) bool { return now.Sub(e.at) < e.lifetime }

// usable reports whether the entry can be served while no server answers.
func (e *entry) usable(now time.Time) bool { return now.Sub(e.at) < e.lifetime+staleFor }

// size is how many bytes the entry takes, roughly.
func (e *entry) size() int { return e.answer.Size() + len(e.key) + 256 }

// cache keeps answers; those that were not used for longest make room for new ones.
type cache struct {
	seed  maphash.Seed
	parts [parts]part
	// onEvict is called for each entry that makes room.
	onEvict func(denial bool)
}

// part has the entries of some keys.
type part struct {
	mu      sync.Mutex
	entries map[string]*entry
	// order is the head of a ring: after it comes the entry that was used last.
	order entry
	bytes int
	// positive and negative count the entries.
	positive, negative int
}

func newCache(onEvict func(denial bool)) *cache {
	c := &cache{seed: maphash.MakeSeed(), onEvict: onEvict}
	for i := range c.parts {
		p := &c.parts[i]
		p.entries = map[string]*entry{}
		p.order.before, p.order.after = &p.order, &p.order
	}
	return c
}

// appendKey appends the key of a question.
func appendKey(out []byte, name *wire.Name, kind uint16, dnssec, checking bool) []byte {
	flags := byte(0)
	if dnssec {
		flags |= 1
	}
	if checking {
		flags |= 2
	}
	return append(append(out, name.Bytes()...), byte(kind>>8), byte(kind), flags)
}

func (c *cache) part(key []byte) *part { return &c.parts[maphash.Bytes(c.seed, key)%parts] }

// get returns the entry of a key, which may have expired; nil if there is none.
func (c *cache) get(key []byte) *entry {
	p := c.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[string(key)]
	if e != nil && p.order.after != e {
		p.unlink(e)
		p.link(e)
	}
	return e
}

// put adds an entry, or replaces the one of its key.
func (c *cache) put(e *entry) {
	p := c.part([]byte(e.key))
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.entries[e.key]; old != nil {
		p.remove(old)
	}
	p.entries[e.key] = e
	p.bytes += e.size()
	p.count(e, 1)
	p.link(e)
	for len(p.entries) > maxEntries/parts || p.bytes > maxBytes/parts {
		last := p.order.before
		p.remove(last)
		c.onEvict(last.denial)
	}
}

// counts returns how many positive and negative answers there are.
func (c *cache) counts() (positive, negative int) {
	for i := range c.parts {
		p := &c.parts[i]
		p.mu.Lock()
		positive, negative = positive+p.positive, negative+p.negative
		p.mu.Unlock()
	}
	return positive, negative
}

func (p *part) count(e *entry, n int) {
	if e.denial {
		p.negative += n
	} else {
		p.positive += n
	}
}

func (p *part) remove(e *entry) {
	delete(p.entries, e.key)
	p.bytes -= e.size()
	p.count(e, -1)
	p.unlink(e)
}

func (p *part) link(e *entry) {
	e.before, e.after = &p.order, p.order.after
	e.before.after, e.after.before = e, e
}

func (p *part) unlink(e *entry) { e.before.after, e.after.before = e.after, e.before }
