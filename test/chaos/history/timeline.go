// Package history compares what informers were told with what etcd held. A Timeline is etcd's
// own record of one life of etcd; the Checker replays each informer's whole history against it.
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

// Change is one change of one key in etcd.
type Change struct {
	Revision int64
	// Resource is the plural name, Key is namespace/name.
	Resource, Key string
	// UID and Scope are those of the new state; empty when Deleted.
	UID, Scope string
	Deleted    bool
}

// Timeline is all that happened in one life of etcd, in the order of revisions.
type Timeline struct {
	resources map[string]*resource
	// through is the revision up to which it is complete; closed says that it ended there.
	through int64
	closed  bool
	// raised says that its revisions are above all of the life before.
	raised bool
	// began is the revision at which it was restored: what it shares with the life before is
	// below.
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

// at is the state of a key after revision; not ok if there was none, or it was deleted.
func (r *resource) at(key string, revision int64) (Change, bool) {
	versions := r.versions[key]
	i := sort.Search(len(versions), func(i int) bool { return versions[i].Revision > revision })
	if i == 0 || versions[i-1].Deleted {
		return Change{}, false
	}
	return versions[i-1], true
}

// changed are the keys that changed in (after, through].
func (r *resource) changed(after, through int64) []string {
	i := sort.Search(len(r.order), func(i int) bool { return r.order[i].Revision > after })
	var keys []string
	for ; i < len(r.order) && r.order[i].Revision <= through; i++ {
		keys = append(keys, r.order[i].Key)
	}
	return keys
}

// of gives the record of a resource, an empty one if there is none.
func (t *Timeline) of(name string) *resource {
	if r := t.resources[name]; r != nil {
		return r
	}
	return &resource{}
}

// entry is what an informer knows of an object.
type entry struct {
	uid      string
	revision int64
}

// inView says whether a state of a key is in a view.
func inView(view informer.View, c Change) bool {
	namespace, name, _ := strings.Cut(c.Key, "/")
	return (view.Namespace == "" || namespace == view.Namespace) && (view.Name == "" || name == view.Name) &&
		(view.Scope == "" || c.Scope == view.Scope || c.Scope == "" && view.Scope == scheme.Unscoped)
}

// entryAt is what a view holds of a key after revision.
func (r *resource) entryAt(view informer.View, key string, revision int64) (entry, bool) {
	c, ok := r.at(key, revision)
	if !ok || !inView(view, c) {
		return entry{}, false
	}
	return entry{c.UID, c.Revision}, true
}

// content is what a view holds after revision.
func (r *resource) content(view informer.View, revision int64) map[string]entry {
	content := map[string]entry{}
	for key := range r.versions {
		if e, ok := r.entryAt(view, key, revision); ok {
			content[key] = e
		}
	}
	return content
}

// had says whether a view ever held exactly this state.
func (r *resource) had(view informer.View, key string, e entry) bool {
	return slices.ContainsFunc(r.versions[key], func(c Change) bool {
		return !c.Deleted && c.UID == e.uid && c.Revision == e.revision && inView(view, c)
	})
}

// left says whether an object left a view: by being deleted, or by moving elsewhere.
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

// lacks says whether a view was without an object at a revision, or came to be without it.
func (r *resource) lacks(view informer.View, key, uid string, since int64) bool {
	if e, ok := r.entryAt(view, key, since); !ok || e.uid != uid {
		return true
	}
	return slices.ContainsFunc(r.versions[key], func(c Change) bool {
		return c.Revision > since && (c.Deleted || c.UID != uid || !inView(view, c))
	})
}

// digest is the same for the same content, whatever its order.
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
