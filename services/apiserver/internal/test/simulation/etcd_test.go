package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// value is what etcd holds of one pod.
type value struct {
	namespace, name, uid, scope string
	revision                    int64
	raw                         []byte
}

func (v value) key() string { return v.namespace + "/" + v.name }

func (v value) in(view informer.View) bool {
	return (view.Namespace == "" || v.namespace == view.Namespace) && (view.Name == "" || v.name == view.Name) &&
		(view.Scope == "" || v.scope == view.Scope)
}

// revision is what one revision of etcd changed, and the state after it.
type revision struct {
	records []store.Record
	state   map[string]value
}

// timeline is one life of etcd: revisions[i] is revision first+i.
type timeline struct {
	number    int
	history   fabric.History
	first     int64
	compacted int64
	revisions []revision
	// setBackTo is the head at the start of a life that reuses revisions; 0 for other lives.
	setBackTo int64
}

func (l *timeline) head() int64 { return l.first + int64(len(l.revisions)) - 1 }

func (l *timeline) at(r int64) revision { return l.revisions[r-l.first] }

func (l *timeline) view(r int64, view informer.View) map[string]value {
	found := map[string]value{}
	for key, v := range l.at(r).state {
		if v.in(view) {
			found[key] = v
		}
	}
	return found
}

// put is a write of a pod; without a uid it is a deletion.
type put struct {
	namespace, name, uid, node string
	// bytes is roughly the extra size of the object.
	bytes int
}

// commit creates one revision with any number of changes; without changes it stands for another
// resource's.
func (l *timeline) commit(puts ...put) int64 {
	r := l.head() + 1
	state := maps.Clone(l.revisions[len(l.revisions)-1].state)
	var records []store.Record
	for _, p := range puts {
		record := store.Record{Namespace: p.namespace, Name: p.name, Revision: r}
		if p.uid == "" {
			record.Deleted = true
			delete(state, p.namespace+"/"+p.name)
		} else {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: types.UID(p.uid)},
				Spec:       corev1.PodSpec{NodeName: p.node},
			}
			// Two lives of etcd never write the same bytes at the same revision.
			pod.Annotations = map[string]string{"life": fmt.Sprint(l.number)}
			if p.bytes > 0 {
				pod.Annotations["large"] = fmt.Sprintf("%0*d", p.bytes, r)
			}
			raw, err := table.EncodeStorage(podKind, pod)
			if err != nil {
				panic(err)
			}
			record.Raw = raw
			v := value{namespace: p.namespace, name: p.name, uid: p.uid, scope: podKind.ScopeOf(pod), revision: r, raw: raw}
			state[v.key()] = v
		}
		records = append(records, record)
	}
	l.revisions = append(l.revisions, revision{records: records, state: state})
	return r
}

// etcd is a cluster that may be set back: the last of its lives is the current one.
type etcd struct{ lives []*timeline }

func newEtcd() *etcd {
	return &etcd{lives: []*timeline{{
		history: fabric.History{Created: 1, Nonce: 1}, first: 100, revisions: []revision{{state: map[string]value{}}},
	}}}
}

func (e *etcd) now() *timeline { return e.lives[len(e.lives)-1] }

// reuse sets etcd back by some revisions, which then get another meaning. H2 begins a new history,
// at once if renew is set.
func (e *etcd) reuse(back int, renew bool) {
	old := e.now()
	keep := len(old.revisions) - min(back, len(old.revisions)-1)
	keep = max(keep, int(max(old.compacted, old.first)-old.first)+1)
	life := &timeline{number: len(e.lives), history: old.history, first: old.first, compacted: old.compacted, revisions: slices.Clone(old.revisions[:keep])}
	life.setBackTo = life.head()
	if renew {
		life.history = fabric.History{Created: old.history.Created + 1, Nonce: old.history.Nonce}
	}
	e.lives = append(e.lives, life)
}

// bump sets etcd back as the restore procedure prescribes: H1.
func (e *etcd) bump(back int) {
	old := e.now()
	keep := len(old.revisions) - min(back, len(old.revisions)-1)
	first := old.head() + 1000
	e.lives = append(e.lives, &timeline{
		number: len(e.lives), history: old.history, first: first, compacted: first, revisions: []revision{{state: old.revisions[keep-1].state}},
	})
}

// restore is bump with a backup from the end of an earlier life, which brings that life's history
// back.
func (e *etcd) restore(backup *timeline) {
	first := e.now().head() + 1000
	e.lives = append(e.lives, &timeline{
		number: len(e.lives), history: backup.history, first: first, compacted: first, revisions: []revision{{state: backup.revisions[len(backup.revisions)-1].state}},
	})
}

// wentBackTo reports whether, after a life, etcd was set back to a revision or below. An informer
// that lags behind is then as recent as etcd.
func (e *etcd) wentBackTo(r int64, after *timeline) bool {
	return slices.ContainsFunc(e.lives, func(life *timeline) bool {
		return after != nil && life.number > after.number && life.setBackTo > 0 && life.setBackTo <= r
	})
}

// of returns the life that an informer's history and revision belong to; nil if there is none.
func (e *etcd) of(created int64, nonce uint64, r int64) *timeline {
	for _, life := range slices.Backward(e.lives) {
		if life.history == (fabric.History{Created: created, Nonce: nonce}) && life.first <= r && r <= life.head() {
			return life
		}
	}
	return nil
}

var errCut = errors.New("etcd cannot be reached")

// connection is an apiserver's connection to etcd: feed.Storage and respond.Storage.
type connection struct {
	etcd *etcd
	// life is the life that the apiserver's watches belong to, which may be over.
	life *timeline
	cut  bool
}

func (c *connection) alive() error {
	if c.cut || c.life != c.etcd.now() {
		return errCut
	}
	return nil
}

func (c *connection) History(context.Context) (fabric.History, error) {
	return c.life.history, c.alive()
}

func (c *connection) RenewHistory(_ context.Context, old fabric.History) (fabric.History, error) {
	if !old.Before(c.life.history) {
		c.life.history = fabric.History{Created: old.Created + 1, Nonce: old.Nonce}
		c.life.commit()
	}
	return c.life.history, c.alive()
}

func (c *connection) Revision(context.Context) (int64, error) { return c.life.head(), c.alive() }

// RevisionOf uses any connection: it reaches the current etcd or nothing.
func (c *connection) RevisionOf(context.Context, *scheme.Kind) (int64, error) {
	if c.cut {
		return 0, errCut
	}
	return c.etcd.now().head(), nil
}

func (c *connection) Oldest(_ context.Context, atLeast int64) (int64, error) {
	return max(atLeast, c.life.compacted, c.life.first), c.alive()
}

func (c *connection) Scan(_ context.Context, _ *scheme.Kind, r int64, take func([]store.Record)) error {
	if r < c.life.compacted {
		return &store.CompactedError{}
	}
	state := c.life.at(r).state
	for _, key := range slices.Sorted(maps.Keys(state)) {
		v := state[key]
		take([]store.Record{{Namespace: v.namespace, Name: v.name, Revision: v.revision, Raw: v.raw}})
	}
	return c.alive()
}

func (c *connection) Object(kind *scheme.Kind, record store.Record) (scheme.Object, error) {
	obj, err := table.DecodeStorage(kind, record.Raw)
	if err != nil {
		return nil, err
	}
	obj.SetResourceVersion(strconv.FormatInt(record.Revision, 10))
	return obj, nil
}

func (c *connection) Follow(context.Context, *scheme.Kind, int64, <-chan struct{}, func(store.Update) error) error {
	return errors.New("a driven feed does not follow etcd")
}

func (c *connection) Completed(_ *scheme.Kind, record store.Record, _ scheme.Object) ([]byte, error) {
	return record.Raw, nil
}

func (c *connection) Holds(_ context.Context, _ *scheme.Kind, record store.Record) (bool, error) {
	if record.Revision < c.life.compacted {
		return true, c.alive()
	}
	if record.Revision < c.life.first || record.Revision > c.life.head() {
		return false, c.alive()
	}
	v, there := c.life.at(record.Revision).state[record.Namespace+"/"+record.Name]
	if record.Deleted {
		return !there, c.alive()
	}
	return there && v.revision == record.Revision && (record.Raw == nil || slices.Equal(v.raw, record.Raw)), c.alive()
}

// next returns what a watch after a revision reports: at most some revisions that changed
// something, none if there is nothing to report. It fails if the changes are compacted.
func (c *connection) next(after int64, atMost int) (store.Update, bool, error) {
	if after+1 < c.life.compacted {
		return store.Update{}, false, &store.CompactedError{Oldest: c.life.compacted}
	}
	var update store.Update
	for r := after + 1; r <= c.life.head() && atMost > 0; r++ {
		if records := c.life.at(r).records; len(records) > 0 {
			update.Revision, update.Records = r, append(update.Records, records...)
			atMost--
		}
	}
	return update, len(update.Records) > 0, nil
}
