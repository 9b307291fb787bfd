package informer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/garboard/garboard/libs/informer"
)

// Checklist G and H: one random script for client-go's SharedIndexInformer and for ours.
// Compared are, for each handler and key, the sequence of calls; the stores; and who has
// synced, at each moment of rest. Left out of client-go's calls are the updates with equal
// versions that it makes of a relist; the script never deletes and creates an object again
// while the watch is cut, which client-go shows as an update from one uid to another.
func TestSameAsClientGo(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { compare(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// callLog is the calls of one handler by key.
type callLog struct {
	mu    sync.Mutex
	calls map[string][]string
}

func (l *callLog) note(key, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string][]string{}
	}
	l.calls[key] = append(l.calls[key], fmt.Sprintf(format, args...))
}

func (l *callLog) snapshot() map[string][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	snapshot := map[string][]string{}
	for key, calls := range l.calls {
		snapshot[key] = slices.Clone(calls)
	}
	return snapshot
}

func (l *callLog) ours() informer.ResourceEventHandler[*corev1.Pod] {
	return informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc: func(p *corev1.Pod, initial bool) { l.note(p.Name, "add %s %v", p.ResourceVersion, initial) },
		UpdateFunc: func(old, p *corev1.Pod) {
			l.note(p.Name, "update %s %s", old.ResourceVersion, p.ResourceVersion)
		},
		DeleteFunc: func(d informer.DeletedObject[*corev1.Pod]) {
			l.note(d.OptionalObj.Name, "delete %s %v", d.OptionalObj.ResourceVersion, d.FinalStateUnknown)
		},
	}
}

func (l *callLog) theirs() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			p := obj.(*corev1.Pod)
			l.note(p.Name, "add %s %v", p.ResourceVersion, initial)
		},
		UpdateFunc: func(before, after any) {
			old, p := before.(*corev1.Pod), after.(*corev1.Pod)
			if old.ResourceVersion != p.ResourceVersion {
				l.note(p.Name, "update %s %s", old.ResourceVersion, p.ResourceVersion)
			}
		},
		DeleteFunc: func(obj any) {
			unknown := false
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj, unknown = tombstone.Obj, true
			}
			p := obj.(*corev1.Pod)
			l.note(p.Name, "delete %s %v", p.ResourceVersion, unknown)
		},
	}
}

// twin is both informers with the state that their API has.
type twin struct {
	t      *testing.T
	ours   *pods
	theirs cache.SharedIndexInformer
	source *cachetesting.FakeControllerSource

	state    map[string]*corev1.Pod
	revision int64
	uids     int
	// cut says that changes are not told until the next relist.
	cut, synced bool
	handlers    []*pair
}

// pair is one handler at both informers.
type pair struct {
	ours, theirs callLog
	ourPlace     informer.Registration
	theirPlace   cache.ResourceEventHandlerRegistration
}

func compare(t *testing.T, seed uint64) {
	w := &twin{t: t, ours: prepare(), source: cachetesting.NewFakeControllerSource(), state: map[string]*corev1.Pod{}}
	w.theirs = cache.NewSharedIndexInformer(w.source, &corev1.Pod{}, 0, cache.Indexers{})
	random := rand.New(rand.NewPCG(seed, 4))
	for range random.IntN(4) {
		w.put(random)
	}
	w.addHandler()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.ours.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() { w.theirs.RunWithContext(ctx) })
	w.relist()
	for step := range 60 {
		what := w.step(random)
		synctest.Wait()
		w.check(fmt.Sprintf("step %d: %s", step, what))
	}
	w.relist()
	w.check("at the end")
	cancel()
	running.Wait()
	w.source.Shutdown()
}

func (w *twin) step(random *rand.Rand) string {
	switch op := random.IntN(20); {
	case op < 10:
		w.put(random)
		return "put"
	case op < 14:
		w.delete(random)
		return "delete"
	case op < 15:
		w.cut = true
		return "cut"
	case op < 17:
		w.relist()
		return "relist"
	case op < 19:
		w.addHandler()
		return "late handler"
	default:
		w.removeHandler(random)
		return "handler removed"
	}
}

// put creates or changes a pod.
func (w *twin) put(random *rand.Rand) {
	name := fmt.Sprint("p", random.IntN(5))
	old := w.state[name]
	p := pod(name, "", 0)
	if old == nil {
		if w.cut {
			name = fmt.Sprint("q", w.uids) // Never a name that was deleted behind the cut.
			p.Name = name
		}
		w.uids++
		p.UID = pod("", fmt.Sprint(w.uids), 0).UID
	} else {
		p = old.DeepCopy()
	}
	w.revision++
	p.ResourceVersion = strconv.FormatInt(w.revision, 10)
	w.state[name] = p
	theirs := p.DeepCopy() // The source sets the version, and it is the same.
	switch {
	case w.cut && old == nil:
		w.source.AddDropWatch(theirs)
	case w.cut:
		w.source.ModifyDropWatch(theirs)
	case old == nil:
		w.source.Add(theirs)
	default:
		w.source.Modify(theirs)
	}
	if !w.cut && w.synced {
		w.ours.sink.Apply([]informer.Change{put(p)}, w.revision)
	}
}

func (w *twin) delete(random *rand.Rand) {
	names := slices.Sorted(maps.Keys(w.state))
	if len(names) == 0 {
		return
	}
	name := names[random.IntN(len(names))]
	last := w.state[name].DeepCopy()
	delete(w.state, name)
	w.revision++
	last.ResourceVersion = strconv.FormatInt(w.revision, 10)
	if w.cut {
		w.source.DeleteDropWatch(last.DeepCopy())
		return
	}
	w.source.Delete(last.DeepCopy())
	change := del(last, w.revision)
	change.Object = last
	w.ours.sink.Apply([]informer.Change{change}, w.revision)
}

// relist gives both a whole view.
func (w *twin) relist() {
	if w.synced {
		w.source.ResetWatch()
	}
	time.Sleep(2 * time.Minute) // client-go backs off before it lists.
	w.cut, w.synced = false, true
	objects := make([]informer.Object, 0, len(w.state))
	for _, p := range w.state {
		objects = append(objects, p)
	}
	w.ours.sink.Replace(objects, w.revision)
	synctest.Wait()
}

func (w *twin) addHandler() {
	p := &pair{}
	var err error
	if p.ourPlace, err = w.ours.AddEventHandler(p.ours.ours()); err != nil {
		w.t.Fatal(err)
	}
	if p.theirPlace, err = w.theirs.AddEventHandler(p.theirs.theirs()); err != nil {
		w.t.Fatal(err)
	}
	w.handlers = append(w.handlers, p)
}

func (w *twin) removeHandler(random *rand.Rand) {
	p := w.handlers[random.IntN(len(w.handlers))]
	if err := w.ours.RemoveEventHandler(p.ourPlace); err != nil {
		w.t.Error(err)
	}
	if err := w.theirs.RemoveEventHandler(p.theirPlace); err != nil {
		w.t.Error(err)
	}
}

func (w *twin) check(when string) {
	w.t.Helper()
	if ours, theirs := w.ours.HasSynced(), w.theirs.HasSynced(); ours != theirs {
		w.t.Fatalf("%s: synced: ours %v, client-go %v", when, ours, theirs)
	}
	for i, p := range w.handlers {
		if diff := cmp.Diff(p.theirs.snapshot(), p.ours.snapshot()); diff != "" {
			w.t.Fatalf("%s: calls of handler %d (-client-go +ours):\n%s", when, i, diff)
		}
		if ours, theirs := p.ourPlace.HasSynced(), p.theirPlace.HasSynced(); ours != theirs {
			w.t.Fatalf("%s: handler %d synced: ours %v, client-go %v", when, i, ours, theirs)
		}
	}
	if diff := cmp.Diff(versions(w.theirs.GetStore().List()), versions(w.ours.Indexer().List())); diff != "" {
		w.t.Fatalf("%s: stores (-client-go +ours):\n%s", when, diff)
	}
}

func versions[T any](objects []T) string {
	var names []string
	for _, obj := range objects {
		p := any(obj).(*corev1.Pod)
		names = append(names, p.Name+"@"+p.ResourceVersion)
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}
