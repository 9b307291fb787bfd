package clientgo

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// maxSteps bounds the steps that a view keeps for watches, maxChanges the changes in these steps,
// and maxBytes the approximate size of the states kept only for them. A watch that is farther
// behind ends, and its client watches again.
const (
	maxSteps   = 16 << 10
	maxChanges = 16 << 10
	maxBytes   = 64 << 20
)

var (
	errEnded      = errors.New("the view is no longer followed")
	errUnfollowed = errors.New("the view cannot be followed")
)

var _ informer.Sink = (*view)(nil)

// view holds the content of a view, and the steps that led to it. It is the Sink of its follower.
type view struct {
	informer.SinkDefaults
	kind     *scheme.Kind
	of       informer.View
	follower informer.Follower

	// These belong to the adapter, under its lock.
	users int
	idle  time.Time
	stop  context.CancelFunc

	mu      sync.Mutex
	objects map[string]informer.Object
	// position is the revision of which objects are the exact content, in history; synced means
	// that there is such content.
	position int64
	history  fabric.History
	synced   bool
	failed   error // why the view cannot be followed, until it can
	over     bool

	// steps lead from start to position; the first of them has the number dropped. epoch counts how
	// often the steps were lost because it was not known how the view changed.
	steps   []step
	dropped int
	changes int
	bytes   int
	start   int64
	epoch   int
	moved   chan struct{} // closed when anything above changes
}

// step leads from revision prev to revision.
type step struct {
	prev, revision int64
	changes        []change
	// bytes is the approximate size of the earlier states, which only the step keeps.
	bytes int
	// exact means that nothing but its changes happened in between.
	exact bool
}

// change is one event for watches. before and after are the object's states; nil if the object did
// not, or does not, exist.
type change struct {
	before, after informer.Object
	// revision is the revision of the event. For a deletion that was not seen, it is the one up to
	// which nothing else is missing; otherwise it is the revision of the change.
	revision int64
}

func newView(kind *scheme.Kind, of informer.View) *view {
	return &view{kind: kind, of: of, objects: map[string]informer.Object{}, moved: make(chan struct{})}
}

// WatchError records that the view cannot be followed, for the requests that wait for it.
func (v *view) WatchError(_ context.Context, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed = errors.Join(errUnfollowed, err)
	v.wake()
}

// wake wakes the waiting requests and watches. The caller holds mu.
func (v *view) wake() {
	close(v.moved)
	v.moved = make(chan struct{})
}

// end ends the view for its users.
func (v *view) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.over {
		v.over = true
		v.wake()
	}
}

// Replace applies a whole view. If it differs from the content, the changes that led to it are not
// known, so watches cannot continue across it.
func (v *view) Replace(at fabric.Position, objects []informer.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	present := make(map[string]informer.Object, len(objects))
	for _, obj := range objects {
		key := informer.Key(obj)
		if _, unreadable := obj.(*metav1.PartialObjectMetadata); unreadable {
			if known := v.objects[key]; known != nil {
				present[key] = known
			}
			continue
		}
		present[key] = obj
	}
	same := v.synced && v.history == at.History && at.Revision >= v.position && equal(v.objects, present)
	v.objects, v.history, v.failed = present, at.History, nil
	if same {
		if at.Revision > v.position {
			v.add(step{prev: v.position, revision: at.Revision})
		}
	} else {
		v.dropped += len(v.steps)
		v.steps, v.changes, v.bytes, v.start = nil, 0, 0, at.Revision
		v.epoch++
	}
	v.position, v.synced = at.Revision, true
	v.wake()
}

func equal(a, b map[string]informer.Object) bool {
	if len(a) != len(b) {
		return false
	}
	for key, obj := range a {
		other := b[key]
		if other == nil || obj.GetUID() != other.GetUID() || obj.GetResourceVersion() != other.GetResourceVersion() {
			return false
		}
	}
	return true
}

// Apply applies the changes that lead to revision.
func (v *view) Apply(changes []informer.Change, revision int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := step{prev: v.position, revision: revision}
	s.exact = len(changes) == 1 && changes[0].Prev != 0 && changes[0].Revision == revision
	through := v.position // Up to here nothing is missing from the events so far.
	for _, c := range changes {
		key := informer.KeyOf(c.Namespace, c.Name)
		before := v.objects[key]
		if c.Deleted {
			delete(v.objects, key)
			if before != nil {
				s.changes = append(s.changes, change{before: before, revision: c.Revision})
			}
			through = c.Revision
			continue
		}
		if _, unreadable := c.Object.(*metav1.PartialObjectMetadata); unreadable || c.Object == nil {
			continue
		}
		if before != nil && before.GetUID() != c.Object.GetUID() {
			s.changes = append(s.changes, change{before: before, revision: through})
			before = nil
		}
		v.objects[key] = c.Object
		s.changes = append(s.changes, change{before: before, after: c.Object, revision: c.Revision})
		through = c.Revision
	}
	v.position, v.failed = revision, nil
	v.add(s)
	v.wake()
}

// add keeps a step. The caller holds mu.
func (v *view) add(s step) {
	for _, c := range s.changes {
		s.bytes += sizeOf(c.before)
	}
	v.steps = append(v.steps, s)
	v.changes, v.bytes = v.changes+len(s.changes), v.bytes+s.bytes
	for len(v.steps) > maxSteps || (v.changes > maxChanges || v.bytes > maxBytes) && len(v.steps) > 1 {
		v.changes, v.bytes = v.changes-len(v.steps[0].changes), v.bytes-v.steps[0].bytes
		v.start = v.steps[0].revision
		v.steps[0] = step{}
		v.steps = v.steps[1:]
		v.dropped++
	}
}

// sizeOf returns the size of an object's encoding, or 0 if the object does not know it.
func sizeOf(obj informer.Object) int {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return customSize(custom)
	}
	if sized, ok := obj.(interface{ Size() int }); ok {
		return sized.Size()
	}
	return 0
}

// reading is the content of a view at a revision.
type reading struct {
	objects  []informer.Object // by namespace and name
	revision int64
	at       cursor
}

// cursor is the position of a watch.
type cursor struct {
	epoch, step int
}

// read returns the current content of the view, in the order of the apiserver's lists.
func (v *view) read(s *selection) reading {
	v.mu.Lock()
	r := reading{revision: v.position, at: cursor{v.epoch, v.dropped + len(v.steps)}}
	keys := make([]string, 0, len(v.objects))
	for key, obj := range v.objects {
		if s.matches(obj) {
			keys = append(keys, key)
		}
	}
	r.objects = make([]informer.Object, len(keys))
	sort.Strings(keys)
	for i, key := range keys {
		r.objects[i] = v.objects[key]
	}
	v.mu.Unlock()
	return r
}

// from returns the cursor of a watch that has seen everything up to revision; false if the changes
// since are not known.
func (v *view) from(revision int64) (cursor, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.synced || revision < v.start || revision > v.position {
		return cursor{}, false
	}
	i := sort.Search(len(v.steps), func(i int) bool { return v.steps[i].revision > revision })
	if i < len(v.steps) && revision > v.steps[i].prev && !v.steps[i].exact {
		return cursor{}, false
	}
	return cursor{v.epoch, v.dropped + i}, true
}

// progress is what a watch gets next.
type progress struct {
	steps []step
	at    cursor
	// revision is the revision to which the steps lead.
	revision int64
	// moved is closed when there is more.
	moved <-chan struct{}
	// expired means that the steps after the cursor were never known, slow that they are no longer
	// kept, and over that there will be no more steps.
	expired, slow, over bool
}

// since returns the steps after a cursor.
func (v *view) since(at cursor) progress {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := progress{at: cursor{v.epoch, v.dropped + len(v.steps)}, revision: v.position, moved: v.moved, over: v.over}
	switch {
	case at.epoch != v.epoch:
		p.expired = true
	case at.step < v.dropped:
		p.slow = true
	default:
		p.steps = slices.Clone(v.steps[at.step-v.dropped:])
	}
	return p
}

// await waits until the view can answer r: until it holds content, and that is new enough.
func (v *view) await(ctx context.Context, r *request, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r.consistent {
		stop := v.onEnd(ctx, cancel)
		defer stop()
		if err := v.follower.Refresh(ctx); err != nil {
			return err
		}
	} else if r.version > 0 && v.revision() < r.version {
		v.follower.Require(r.version)
	}
	for {
		v.mu.Lock()
		failed, over, enough, moved := v.failed, v.over, v.synced && v.position >= r.version, v.moved
		v.mu.Unlock()
		switch {
		case over:
			return errEnded
		case enough:
			return nil
		case failed != nil:
			return failed
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// onEnd calls cancel when the view ends or fails, until ctx ends or stop is called.
func (v *view) onEnd(ctx context.Context, cancel context.CancelFunc) (stop func()) {
	watching, stopWatching := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			v.mu.Lock()
			ended, moved := v.over || v.failed != nil && !v.synced, v.moved
			v.mu.Unlock()
			if ended {
				cancel()
				return
			}
			select {
			case <-moved:
			case <-watching.Done():
				return
			}
		}
	})
	return func() {
		stopWatching()
		done.Wait()
	}
}

func (v *view) revision() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.position
}

// at returns a copy of an object with another resourceVersion.
func at(obj informer.Object, revision int64) informer.Object {
	copied, ok := obj.DeepCopyObject().(informer.Object)
	if !ok {
		return obj
	}
	copied.SetResourceVersion(strconv.FormatInt(revision, 10))
	return copied
}
