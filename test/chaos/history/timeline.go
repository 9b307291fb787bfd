// Package history compares what informers reported with what etcd held. A Timeline is etcd's own
// record of one of its lives; the Checker replays each informer's whole history against it.
package history

import (
	"hash/fnv"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// Change is a change of one key in etcd.
type Change struct {
	Revision int64
	// Resource is the plural name, Key is namespace/name.
	Resource, Key string
	// UID and Scope belong to the new state; they are empty if Deleted.
	UID, Scope string
	Deleted    bool
}

// Timeline is everything that happened in one life of etcd, in the order of revisions.
type Timeline struct {
	resources map[string]*resource
	// through is the revision up to which it is complete; closed means that it ended there.
	through int64
	closed  bool
	// raised means that its revisions are above all revisions of the previous life.
	raised bool
	// began is the revision at which it was restored: below it, it is identical to the previous
	// life.
	began int64
}

type resource struct {
	versions map[string][]Change
	order    []Change
}

func newTimeline() *Timeline { return &Timeline{resources: map[string]*resource{}} }

func (t *Timeline) add(c Change) {
	r := t.resources[c.Resource]
	if r == nil {
		r = &resource{versions: map[string][]Change{}}
		t.resources[c.Resource] = r
	}
	r.versions[c.Key] = append(r.versions[c.Key], c)
	r.order = append(r.order, c)
	t.through = max(t.through, c.Revision)
}

// at returns the state of a key after revision, or false if the key did not exist.
func (r *resource) at(key string, revision int64) (Change, bool) {
	versions := r.versions[key]
	i := sort.Search(len(versions), func(i int) bool { return versions[i].Revision > revision })
	if i == 0 || versions[i-1].Deleted {
		return Change{}, false
	}
	return versions[i-1], true
}

// changed returns the keys that changed in (after, through].
func (r *resource) changed(after, through int64) []string {
	i := sort.Search(len(r.order), func(i int) bool { return r.order[i].Revision > after })
	var keys []string
	for ; i < len(r.order) && r.order[i].Revision <= through; i++ {
		keys = append(keys, r.order[i].Key)
	}
	return keys
}

// of returns the record of a resource, an empty one if there is none.
func (t *Timeline) of(name string) *resource {
	if r := t.resources[name]; r != nil {
		return r
	}
	return &resource{}
}

// entry is what an informer knows about an object.
type entry struct {
	uid      string
	revision int64
}

// inView reports whether a state of a key is in a view.
func inView(view informer.View, c Change) bool {
	namespace, name, _ := strings.Cut(c.Key, "/")
	return (view.Namespace == "" || namespace == view.Namespace) && (view.Name == "" || name == view.Name) &&
		(view.Scope == "" || c.Scope == view.Scope || c.Scope == "" && view.Scope == scheme.Unscoped)
}

// entryAt returns what a view holds for a key after revision.
func (r *resource) entryAt(view informer.View, key string, revision int64) (entry, bool) {
	c, ok := r.at(key, revision)
	if !ok || !inView(view, c) {
		return entry{}, false
	}
	return entry{c.UID, c.Revision}, true
}

// content returns what a view holds after revision.
func (r *resource) content(view informer.View, revision int64) map[string]entry {
	content := map[string]entry{}
	for key := range r.versions {
		if e, ok := r.entryAt(view, key, revision); ok {
			content[key] = e
		}
	}
	return content
}

// had reports whether a view ever held exactly this state.
func (r *resource) had(view informer.View, key string, e entry) bool {
	return slices.ContainsFunc(r.versions[key], func(c Change) bool {
		return !c.Deleted && c.UID == e.uid && c.Revision == e.revision && inView(view, c)
	})
}

// left reports whether an object left a view, by being deleted or by moving elsewhere.
func (r *resource) left(view informer.View, key, uid string) bool {
	in := false
	for _, c := range r.versions[key] {
		now := !c.Deleted && c.UID == uid && inView(view, c)
		if in && !now {
			return true
		}
		in = now
	}
	return false
}

// lacks reports whether a view did not have an object at a revision, or lost it later.
func (r *resource) lacks(view informer.View, key, uid string, since int64) bool {
	if e, ok := r.entryAt(view, key, since); !ok || e.uid != uid {
		return true
	}
	return slices.ContainsFunc(r.versions[key], func(c Change) bool {
		return c.Revision > since && (c.Deleted || c.UID != uid || !inView(view, c))
	})
}

// digest hashes an entry. The sum over a content does not depend on the order of entries.
func digest(key string, e entry) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key + "\x00" + e.uid + "\x00" + strconv.FormatInt(e.revision, 10)))
	return h.Sum64()
}

func digestOf(content map[string]entry) uint64 {
	var sum uint64
	for key, e := range content {
		sum += digest(key, e)
	}
	return sum
}
