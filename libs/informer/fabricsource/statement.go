package fabricsource

import (
	"cmp"

	"github.com/garboard/garboard/libs/fabric"
	id "github.com/garboard/garboard/libs/history"
	"github.com/garboard/garboard/libs/informer"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// always is the prev of a statement about a whole view.
const always = fabric.Always

// history names one life of one etcd cluster. The zero history is unknown: it is the history of
// content that was read over HTTP before any was known.
type history struct {
	created int64
	nonce   uint64
}

func historyOf(h *watchv1.History) history { return historyOfID(fabric.HistoryOf(h)) }

func (h history) wire() *watchv1.History { return fabric.WireHistory(h.id()) }

// id returns the history as a history.ID.
func (h history) id() id.ID { return id.ID{Created: h.created, Nonce: h.nonce} }

// String is empty for the zero history.
func (h history) String() string { return h.id().String() }

func historyOfID(of id.ID) history { return history{created: of.Created, nonce: of.Nonce} }

// parseHistory parses the result of String.
func parseHistory(text string) (history, error) {
	of, err := id.Parse(text)
	return historyOfID(of), err
}

func (h history) compare(other history) int {
	return h.id().Compare(other.id())
}

// statement states that in the followed view the changes in (prev, revision] are exactly these.
type statement struct {
	history        history
	prev, revision int64
	changes        []informer.Change
	// size is its approximate size in bytes.
	size int
}

// Bounds of the buffer.
const (
	maxBuffered      = 1024
	maxBufferedBytes = 16 << 20
)

// buffer keeps statements that cannot be applied yet, in rising revision.
type buffer struct {
	statements []statement
	bytes      int
	// limit is the largest number of statements; maxBuffered if 0.
	limit int
}

// add keeps a statement. It returns false if the buffer was full and everything was dropped.
func (b *buffer) add(s statement) bool {
	at := len(b.statements)
	for at > 0 && b.statements[at-1].revision > s.revision {
		at--
	}
	if at > 0 {
		if same := &b.statements[at-1]; same.revision == s.revision && same.history == s.history {
			// The same change from another publisher: the lower prev covers more.
			same.prev = min(same.prev, s.prev)
			return true
		}
	}
	if len(b.statements) >= cmp.Or(b.limit, maxBuffered) || b.bytes+s.size > maxBufferedBytes {
		b.clear()
		return false
	}
	b.statements = append(b.statements, statement{})
	copy(b.statements[at+1:], b.statements[at:])
	b.statements[at] = s
	b.bytes += s.size
	return true
}

func (b *buffer) clear() { *b = buffer{limit: b.limit} }

// offer passes every statement to try, in rising revision, and keeps those for which try returns
// true.
func (b *buffer) offer(try func(s statement) (keep bool)) {
	kept := b.statements[:0]
	b.bytes = 0
	for _, s := range b.statements {
		if try(s) {
			kept = append(kept, s)
			b.bytes += s.size
		}
	}
	clear(b.statements[len(kept):])
	b.statements = kept
}

// index is what the follower itself knows of the view's objects.
type index struct {
	objects map[indexKey]indexEntry
	digest  uint64
}

type indexKey struct{ namespace, name string }

type indexEntry struct {
	uid      string
	revision int64
}

func newIndex(size int) index { return index{objects: make(map[indexKey]indexEntry, size)} }

func (i *index) put(namespace, name, uid string, revision int64) {
	i.drop(namespace, name)
	i.objects[indexKey{namespace, name}] = indexEntry{uid: uid, revision: revision}
	i.digest += watchv1.EntryDigest(namespace, name, uid, revision)
}

func (i *index) drop(namespace, name string) (uid string, known bool) {
	key := indexKey{namespace, name}
	old, known := i.objects[key]
	if known {
		delete(i.objects, key)
		i.digest -= watchv1.EntryDigest(namespace, name, old.uid, old.revision)
	}
	return old.uid, known
}
