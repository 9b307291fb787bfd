package fabricsource

import (
	"cmp"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// statement is a statement about the followed view.
type statement = fabric.Statement[informer.Change]

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
	for at > 0 && b.statements[at-1].Revision > s.Revision {
		at--
	}
	if at > 0 {
		if same := &b.statements[at-1]; same.Revision == s.Revision && same.History == s.History {
			// The same change from another publisher: the lower prev covers more.
			same.Prev = min(same.Prev, s.Prev)
			return true
		}
	}
	if len(b.statements) >= cmp.Or(b.limit, maxBuffered) || b.bytes+s.Size > maxBufferedBytes {
		b.clear()
		return false
	}
	b.statements = append(b.statements, statement{})
	copy(b.statements[at+1:], b.statements[at:])
	b.statements[at] = s
	b.bytes += s.Size
	return true
}

func (b *buffer) clear() { *b = buffer{limit: b.limit} }

// offer passes every statement to try, in rising revision, and keeps those for which try returns true.
func (b *buffer) offer(try func(s statement) (keep bool)) {
	kept := b.statements[:0]
	b.bytes = 0
	for _, s := range b.statements {
		if try(s) {
			kept = append(kept, s)
			b.bytes += s.Size
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
