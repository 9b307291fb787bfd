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
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// TestSameAsClientGo runs each random script against client-go's SharedIndexInformer and ours
// (checklist G and H: 110-118, 122, 124, 128, 132, E59-E62). At each moment of rest it compares the
// sequence of calls for each handler and key, the stores with an index, and what has synced. It
// ignores client-go's updates with equal versions after a relist. The script never deletes and
// re-creates an object while the watch is cut, which client-go shows as an update from one UID to
// another.
func TestSameAsClientGo(t *testing.T) {
	for seed := range scripts() {
		synctest.Test(t, func(t *testing.T) {
			if err := compare(t, seed, mutant{}); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// scripts returns how many scripts are compared; each of them finds each mutant.
func scripts() uint64 {
	if testing.Short() {
		return 20
	}
	return 150
}

// mutant is a fault that the comparison must find. Nil functions change nothing.
type mutant struct {
	name string
	// handler wraps a handler of our informer; sink is between script and informer.
	handler func(late bool, h podHandler) podHandler
	sink    func(informer.Sink) informer.Sink
	index   func(informer.IndexFunc[*corev1.Pod]) informer.IndexFunc[*corev1.Pod]
}

type podHandler = informer.ResourceEventHandlerFuncs[*corev1.Pod]

// dropDeletes is a Sink that loses deletions.
type dropDeletes struct{ informer.Sink }

func (d dropDeletes) Apply(changes []informer.Change, revision int64) {
	d.Sink.Apply(slices.DeleteFunc(changes, func(c informer.Change) bool { return c.Deleted }), revision)
}

// dropAbsences is a Sink whose whole views keep objects that are gone.
type dropAbsences struct {
	informer.Sink
	last map[string]informer.Object
}

func (d dropAbsences) Replace(at fabric.Position, objects []informer.Object) {
	for _, obj := range objects {
		d.last[informer.Key(obj)] = obj
	}
	d.Sink.Replace(at, slices.Collect(maps.Values(d.last)))
}

// TestMutantsAreCaught checks that each script finds each of these faults, so that a passing script
// means something.
func TestMutantsAreCaught(t *testing.T) {
	wrap := func(change func(h, to *podHandler)) func(bool, podHandler) podHandler {
		return func(_ bool, h podHandler) podHandler {
			to := h
			change(&h, &to)
			return to
		}
	}
	for _, m := range []mutant{
		{name: "isInInitialList always false", handler: wrap(func(h, to *podHandler) {
			to.AddFunc = func(p *corev1.Pod, _ bool) { h.AddFunc(p, false) }
		})},
		{name: "isInInitialList always true", handler: wrap(func(h, to *podHandler) {
			to.AddFunc = func(p *corev1.Pod, _ bool) { h.AddFunc(p, true) }
		})},
		{name: "lost delete", sink: func(s informer.Sink) informer.Sink { return dropDeletes{s} }},
		{name: "lost delete in a whole view", sink: func(s informer.Sink) informer.Sink {
			return dropAbsences{Sink: s, last: map[string]informer.Object{}}
		}},
		{name: "delete not delivered", handler: wrap(func(_, to *podHandler) { to.DeleteFunc = nil })},
		{name: "final state unknown not set", handler: wrap(func(h, to *podHandler) {
			to.DeleteFunc = func(d informer.DeletedObject[*corev1.Pod]) {
				d.FinalStateUnknown = false
				h.DeleteFunc(d)
			}
		})},
		{name: "update as add", handler: wrap(func(h, to *podHandler) {
			to.UpdateFunc = func(_, p *corev1.Pod) { h.AddFunc(p, false) }
		})},
		{name: "old state is the new one", handler: wrap(func(h, to *podHandler) {
			to.UpdateFunc = func(_, p *corev1.Pod) { h.UpdateFunc(p, p) }
		})},
		{name: "duplicates to a late handler", handler: func(late bool, h podHandler) podHandler {
			to := h
			to.AddFunc = func(p *corev1.Pod, initial bool) {
				h.AddFunc(p, initial)
				if late && initial {
					h.AddFunc(p, false)
				}
			}
			return to
		}},
		{name: "no initial list for a late handler", handler: func(late bool, h podHandler) podHandler {
			to := h
			to.AddFunc = func(p *corev1.Pod, initial bool) {
				if !late || !initial {
					h.AddFunc(p, initial)
				}
			}
			return to
		}},
		{name: "updates coalesce without need", handler: func(_ bool, h podHandler) podHandler {
			to, n := h, 0
			to.UpdateFunc = func(old, p *corev1.Pod) {
				if n++; n%5 != 0 {
					h.UpdateFunc(old, p)
				}
			}
			return to
		}},
		{name: "index not updated", index: func(f informer.IndexFunc[*corev1.Pod]) informer.IndexFunc[*corev1.Pod] {
			first := map[string][]string{}
			return func(p *corev1.Pod) ([]string, error) {
				if _, known := first[p.Name]; !known {
					values, err := f(p)
					if err != nil {
						return nil, err
					}
					first[p.Name] = values
				}
				return first[p.Name], nil
			}
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			var missed []uint64
			for seed := range scripts() {
				synctest.Test(t, func(t *testing.T) {
					if compare(t, seed, m) == nil {
						missed = append(missed, seed)
					}
				})
			}
			if len(missed) > 0 {
				t.Errorf("%d of %d scripts do not catch it: %v", len(missed), scripts(), missed)
			}
		})
	}
}

// callLog records the calls of one handler by key.
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

func (l *callLog) ours() podHandler {
	return podHandler{
		AddFunc: func(p *corev1.Pod, initial bool) { l.note(p.Name, "add %s %v", p.ResourceVersion, initial) },
		UpdateFunc: func(old, p *corev1.Pod) {
			if old == p {
				l.note(p.Name, "resync %s", p.ResourceVersion)
				return
			}
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
			if old == p {
				l.note(p.Name, "resync %s", p.ResourceVersion)
				return
			}
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

// twin holds both informers and the state of their API.
type twin struct {
	t      *testing.T
	mutant mutant
	ours   *pods
	sink   informer.Sink
	theirs cache.SharedIndexInformer
	source *cachetesting.FakeControllerSource

	state    map[string]*corev1.Pod
	revision int64
	uids     int
	// cut means that changes are not delivered until the next relist.
	cut, synced bool
	handlers    []*pair
}

// pair is one handler registered with both informers.
type pair struct {
	ours, theirs callLog
	ourPlace     informer.Registration
	theirPlace   cache.ResourceEventHandlerRegistration
}

// mark is a transform, for both, that leaves a visible mark on the object.
func mark(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Labels, p.Annotations = map[string]string{"marked": "yes"}, nil
	return p
}

// newTwin creates both informers; client-go's needs the resync period early, to check for resyncs.
func newTwin(t *testing.T, m mutant, resync time.Duration) *twin {
	w := &twin{t: t, mutant: m, ours: prepare(), source: cachetesting.NewFakeControllerSource(), state: map[string]*corev1.Pod{}}
	w.sink = w.ours.sink
	if m.sink != nil {
		w.sink = m.sink(w.sink)
	}
	index := informer.IndexFunc[*corev1.Pod](byNode)
	if m.index != nil {
		index = m.index(index)
	}
	if err := w.ours.AddIndexers(informer.Indexers[*corev1.Pod]{"node": index}); err != nil {
		t.Fatal(err)
	}
	w.theirs = cache.NewSharedIndexInformer(w.source, &corev1.Pod{}, resync, cache.Indexers{
		"node": func(obj any) ([]string, error) { return byNode(obj.(*corev1.Pod)) },
	})
	return w
}

// transform sets the same transform on both.
func (w *twin) transform() {
	if err := w.ours.SetTransform(func(p *corev1.Pod) (*corev1.Pod, error) { return mark(p), nil }); err != nil {
		w.t.Error(err)
	}
	if err := w.theirs.SetTransform(func(obj any) (any, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			return mark(p), nil
		}
		return obj, nil
	}); err != nil {
		w.t.Error(err)
	}
}

// run runs both while script runs.
func (w *twin) run(script func() error) error {
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.ours.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	running.Go(func() { w.theirs.RunWithContext(ctx) })
	err := script()
	cancel()
	running.Wait()
	w.source.Shutdown()
	return err
}

func compare(t *testing.T, seed uint64, m mutant) error {
	w := newTwin(t, m, 0)
	random := rand.New(rand.NewPCG(seed, 4))
	if random.IntN(2) == 0 {
		w.transform()
	}
	for range random.IntN(4) {
		w.put(random)
	}
	w.addHandler(0)
	return w.run(func() error {
		w.relist()
		for step := range 120 {
			what := ""
			switch step % 40 {
			case 20: // A late handler that has something to list, whatever else the script does.
				for range 3 {
					w.put(random)
				}
				synctest.Wait()
				w.addHandler(0)
				what = "late handler"
			case 30: // Changes missed by a watch that was cut.
				for range 3 {
					w.put(random)
				}
				synctest.Wait()
				w.cut = true
				w.delete(random)
				w.put(random)
				w.relist()
				what = "outage"
			default:
				what = w.step(random)
			}
			synctest.Wait()
			if err := w.check(fmt.Sprintf("step %d: %s", step, what)); err != nil {
				return err
			}
		}
		w.relist()
		return w.check("at the end")
	})
}

// TestResyncSameAsClientGo checks that resyncs reach the handlers that asked for them, in their
// period. They come between changes, and never with an older state than the last delivered one
// (checklist H128, H129).
func TestResyncSameAsClientGo(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newTwin(t, mutant{}, time.Minute)
			random := rand.New(rand.NewPCG(seed, 5))
			for _, period := range []time.Duration{time.Minute, 0, time.Minute, 3 * time.Minute} {
				w.addHandler(period)
			}
			for range 4 {
				w.put(random)
			}
			err := w.run(func() error {
				synctest.Wait()
				w.whole()
				time.Sleep(7 * time.Second) // Changes never coincide with a resync.
				for step := range 20 {
					if random.IntN(3) == 0 {
						w.delete(random)
					} else {
						w.put(random)
					}
					time.Sleep(20 * time.Second)
					synctest.Wait()
					if err := w.check(fmt.Sprint("step ", step)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			resyncs := 0
			for _, calls := range w.handlers[0].ours.snapshot() {
				for _, call := range calls {
					if strings.HasPrefix(call, "resync") {
						resyncs++
					}
				}
			}
			if resyncs == 0 {
				t.Errorf("seed %d: nothing was resynced", seed)
			}
		})
	}
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
		w.addHandler(0)
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
			name = fmt.Sprint("q", w.uids) // Never a name that was deleted while the watch was cut.
			p.Name = name
		}
		w.uids++
		p.UID = pod("", fmt.Sprint(w.uids), 0).UID
	} else {
		p = old.DeepCopy()
	}
	p.Spec.NodeName = []string{"", "n1", "n2"}[random.IntN(3)]
	p.Annotations = map[string]string{"large": "yes"}
	w.revision++
	p.ResourceVersion = strconv.FormatInt(w.revision, 10)
	w.state[name] = p
	theirs := p.DeepCopy() // The source sets the version, to the same value.
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
		w.sink.Apply([]informer.Change{put(p)}, w.revision)
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
	w.sink.Apply([]informer.Change{change}, w.revision)
}

// relist sends a whole view to both.
func (w *twin) relist() {
	if w.synced {
		w.source.ResetWatch()
	}
	time.Sleep(2 * time.Minute) // client-go backs off before it lists.
	w.whole()
	synctest.Wait()
}

// whole sends the whole view to ours.
func (w *twin) whole() {
	w.cut, w.synced = false, true
	objects := make([]informer.Object, 0, len(w.state))
	for _, p := range w.state {
		objects = append(objects, p)
	}
	w.sink.Replace(fabric.Position{Revision: w.revision}, objects)
}

func (w *twin) addHandler(resync time.Duration) {
	p := &pair{}
	ours := p.ours.ours()
	if w.mutant.handler != nil {
		ours = w.mutant.handler(len(w.handlers) > 0, ours)
	}
	var err error
	if p.ourPlace, err = w.ours.AddEventHandlerWithOptions(ours, informer.HandlerOptions{ResyncPeriod: resync}); err != nil {
		w.t.Fatal(err)
	}
	if p.theirPlace, err = w.theirs.AddEventHandlerWithOptions(p.theirs.theirs(), cache.HandlerOptions{ResyncPeriod: &resync}); err != nil {
		w.t.Fatal(err)
	}
	w.handlers = append(w.handlers, p)
}

func (w *twin) removeHandler(random *rand.Rand) {
	if len(w.handlers) == 1 {
		return // The first one stays.
	}
	p := w.handlers[1+random.IntN(len(w.handlers)-1)]
	if err := w.ours.RemoveEventHandler(p.ourPlace); err != nil {
		w.t.Error(err)
	}
	if err := w.theirs.RemoveEventHandler(p.theirPlace); err != nil {
		w.t.Error(err)
	}
}

func (w *twin) check(when string) error {
	if ours, theirs := w.ours.HasSynced(), w.theirs.HasSynced(); ours != theirs {
		return fmt.Errorf("%s: synced: ours %v, client-go %v", when, ours, theirs)
	}
	for i, p := range w.handlers {
		if diff := cmp.Diff(p.theirs.snapshot(), p.ours.snapshot()); diff != "" {
			return fmt.Errorf("%s: calls of handler %d (-client-go +ours):\n%s", when, i, diff)
		}
		if ours, theirs := p.ourPlace.HasSynced(), p.theirPlace.HasSynced(); ours != theirs {
			return fmt.Errorf("%s: handler %d synced: ours %v, client-go %v", when, i, ours, theirs)
		}
	}
	if diff := cmp.Diff(versions(w.theirs.GetStore().List()), versions(w.ours.Indexer().List())); diff != "" {
		return fmt.Errorf("%s: stores (-client-go +ours):\n%s", when, diff)
	}
	theirs, ours := w.theirs.GetIndexer(), w.ours.Indexer()
	values := theirs.ListIndexFuncValues("node")
	slices.Sort(values)
	if diff := cmp.Diff(values, ours.ListIndexFuncValues("node"), cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("%s: values of the index (-client-go +ours):\n%s", when, diff)
	}
	for _, value := range values {
		theirKeys, err := theirs.IndexKeys("node", value)
		if err != nil {
			return err
		}
		slices.Sort(theirKeys)
		ourKeys, err := ours.IndexKeys("node", value)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(theirKeys, ourKeys); diff != "" {
			return fmt.Errorf("%s: keys under %s (-client-go +ours):\n%s", when, value, diff)
		}
	}
	return nil
}

func versions[T any](objects []T) string {
	var names []string
	for _, obj := range objects {
		p := any(obj).(*corev1.Pod)
		names = append(names, fmt.Sprintf("%s@%s %s %v %v", p.Name, p.ResourceVersion, p.Spec.NodeName, p.Labels, p.Annotations))
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}
