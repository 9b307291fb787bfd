package garbage

import (
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// identity names one object for ever.
type identity struct {
	kind            *scheme.Kind
	namespace, name string
	uid             types.UID
}

// node is what the graph knows about an object.
type node struct {
	identity
	owners     []metav1.OwnerReference
	deleting   bool      // it has a deletionTimestamp
	since      time.Time // of its deletionTimestamp; zero if it has none
	foreground bool      // it waits for its dependents to be deleted
	orphan     bool      // it waits for its dependents to be released
	revision   int64
}

// waiting reports whether the object stays until its blocking dependents are deleted.
func (n *node) waiting() bool { return n.deleting && n.foreground }

// graph records which objects own which, across all kinds. Followers feed it, and it notifies the
// collector of objects that are worth a look. It keeps only metadata.
type graph struct {
	mu         sync.Mutex
	nodes      map[types.UID]*node
	dependents map[types.UID]map[types.UID]struct{} // by owner, which need not be known
	byKind     map[schema.GroupResource]map[string]types.UID
	followed   map[schema.GroupResource]*view
	// awaited are objects of whose owners' kind nothing is known, by that kind.
	awaited map[schema.GroupKind]map[types.UID]struct{}
	// lost are the latest objects of custom kinds that were deleted and have dependents. Their kinds may go
	// before the dependents are looked at.
	lost *lru.Cache
	// absent are owners that the API did not have, by UID: one that is gone does not come back.
	absent *lru.Cache
	moved  chan struct{}   // closed, and replaced, when a kind has had its first whole view, or a custom one lost an object
	whole  chan struct{}   // closed when every followed kind has had its first whole view
	look   func(types.UID) // nil while no collector runs
}

// view is how far a kind is known.
type view struct {
	kind     *scheme.Kind
	require  func(revision int64)
	revision int64 // 0 until the first whole view
}

// lostOwners is how many deleted owners the graph remembers, and how many absent ones (Kubernetes,
// NewReferenceCache).
const lostOwners = 500

func newGraph() *graph {
	return &graph{
		nodes:      map[types.UID]*node{},
		dependents: map[types.UID]map[types.UID]struct{}{},
		byKind:     map[schema.GroupResource]map[string]types.UID{},
		followed:   map[schema.GroupResource]*view{},
		awaited:    map[schema.GroupKind]map[types.UID]struct{}{},
		lost:       lru.New(lostOwners),
		absent:     lru.New(lostOwners),
		moved:      make(chan struct{}),
		whole:      make(chan struct{}),
	}
}

// begin records that a kind is followed from now on.
func (g *graph) begin(kind *scheme.Kind, require func(int64)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.followed[kind.GroupResource()] = &view{kind: kind, require: require}
	if g.byKind[kind.GroupResource()] == nil {
		g.byKind[kind.GroupResource()] = map[string]types.UID{}
	}
}

// end records that a kind is no longer followed. Its objects stay if another kind succeeds it. Otherwise nothing
// is known of them any more.
func (g *graph) end(kind *scheme.Kind, succeeded bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.followed[kind.GroupResource()]; known != nil && known.kind != kind {
		return // Another server's has begun already.
	}
	delete(g.followed, kind.GroupResource())
	if succeeded {
		return
	}
	for _, uid := range g.byKind[kind.GroupResource()] {
		g.remove(uid)
	}
	delete(g.byKind, kind.GroupResource())
}

// left returns how many objects of a kind the graph has, and a channel that is closed when that changes.
func (g *graph) left(kind *scheme.Kind) (objects int, moved <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.byKind[kind.GroupResource()]), g.moved
}

// move wakes those that wait for a change. The caller holds mu.
func (g *graph) move() {
	close(g.moved)
	g.moved = make(chan struct{})
}

// sink feeds one kind into the graph.
type sink struct {
	informer.SinkDefaults
	graph *graph
	kind  *scheme.Kind
	// remote objects are another server's, whose revisions say nothing here.
	remote bool
}

var _ informer.Sink = sink{}

// Replace sets the kind's objects to exactly these.
func (s sink) Replace(at fabric.Position, objects []informer.Object) {
	g := s.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	resource := s.kind.GroupResource()
	left := g.byKind[resource]
	g.byKind[resource] = make(map[string]types.UID, len(objects))
	present := make(map[types.UID]struct{}, len(objects))
	for _, obj := range objects {
		present[obj.GetUID()] = struct{}{}
	}
	for _, uid := range left {
		if _, is := present[uid]; !is {
			g.lose(uid)
		}
	}
	for _, obj := range objects {
		s.put(obj)
	}
	g.seen(s.kind, at.Revision)
}

// Apply applies changes in order.
func (s sink) Apply(changes []informer.Change, revision int64) {
	g := s.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	objects := g.byKind[s.kind.GroupResource()]
	for i := range changes {
		change := &changes[i]
		key := informer.KeyOf(change.Namespace, change.Name)
		before := objects[key]
		switch {
		case change.Deleted:
			delete(objects, key)
			g.lose(before)
		case change.Object != nil:
			if before != "" && before != change.Object.GetUID() {
				g.lose(before)
			}
			s.put(change.Object)
		}
	}
	g.seen(s.kind, revision)
}

// put adds or changes a node. The caller holds the graph's mu.
func (s sink) put(obj informer.Object) {
	g, kind := s.graph, s.kind
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil || s.remote {
		revision = 0
	}
	next := &node{
		identity: identity{kind: kind, namespace: obj.GetNamespace(), name: obj.GetName(), uid: obj.GetUID()},
		owners:   slices.Clone(obj.GetOwnerReferences()), deleting: obj.GetDeletionTimestamp() != nil, revision: revision,
		foreground: slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents),
		orphan:     slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents),
	}
	if at := obj.GetDeletionTimestamp(); at != nil {
		next.since = at.Time
	}
	g.lost.Remove(next.uid)
	g.absent.Remove(next.uid)
	g.byKind[kind.GroupResource()][informer.KeyOf(next.namespace, next.name)] = next.uid
	if before := g.nodes[next.uid]; before != nil {
		g.unlink(before)
	}
	g.nodes[next.uid] = next
	for _, owner := range next.owners {
		if g.dependents[owner.UID] == nil {
			g.dependents[owner.UID] = map[types.UID]struct{}{}
		}
		g.dependents[owner.UID][next.uid] = struct{}{}
	}
	g.consider(next)
}

// consider requests a look at an object, its dependents or its owners if the object's state calls
// for it. The caller holds mu.
func (g *graph) consider(n *node) {
	if n.waiting() || n.deleting && n.orphan || g.suspicious(n) {
		g.notify(n.uid)
	}
	if n.waiting() {
		for dependent := range g.dependents[n.uid] {
			g.notify(dependent)
		}
	}
	// A dependent that no longer blocks may have been the last that did.
	for _, owner := range n.owners {
		if o := g.nodes[owner.UID]; o != nil && o.waiting() {
			g.notify(o.uid)
		}
	}
}

// suspicious reports whether any owner of the object is unknown, does not match its reference, or
// is being deleted in the foreground.
func (g *graph) suspicious(n *node) bool {
	for _, ref := range n.owners {
		owner := g.nodes[ref.UID]
		if owner == nil || owner.waiting() || !owner.is(ref, n.namespace) {
			return true
		}
	}
	return false
}

// is reports whether the object is the one that a reference from a namespace names.
func (n *node) is(ref metav1.OwnerReference, namespace string) bool {
	return n.kind.GroupKind() == kindOf(ref) && n.name == ref.Name &&
		(!n.kind.Namespaced || n.namespace == namespace)
}

// lose is remove of an object that was deleted, for all that etcd says. The caller holds mu.
func (g *graph) lose(uid types.UID) {
	n := g.nodes[uid]
	if n != nil && n.kind.Custom && len(g.dependents[uid]) > 0 {
		g.lost.Add(uid, n)
	}
	g.remove(uid)
	if n != nil && n.kind.Custom {
		g.move()
	}
}

// isLost reports whether the owner that a reference names was deleted, as its kind may have been since.
func (g *graph) isLost(ref metav1.OwnerReference, namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	found, _ := g.lost.Get(ref.UID)
	owner, ok := found.(*node)
	return ok && owner.is(ref, namespace)
}

// noteAbsent remembers that the API does not have an owner.
func (g *graph) noteAbsent(owner identity) { g.absent.Add(owner.uid, owner) }

// isAbsent reports whether the API did not have an owner.
func (g *graph) isAbsent(owner identity) bool {
	found, _ := g.absent.Get(owner.uid)
	return found == owner
}

// await remembers an object until something is known of its owner's kind.
func (g *graph) await(uid types.UID, owner schema.GroupKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[uid] == nil {
		return
	}
	if g.awaited[owner] == nil {
		g.awaited[owner] = map[types.UID]struct{}{}
	}
	g.awaited[owner][uid] = struct{}{}
}

// remove removes an object from the graph. The caller holds mu.
func (g *graph) remove(uid types.UID) {
	n := g.nodes[uid]
	if n == nil {
		return
	}
	g.unlink(n)
	delete(g.nodes, uid)
	for dependent := range g.dependents[uid] {
		g.notify(dependent)
	}
	for _, owner := range n.owners {
		if o := g.nodes[owner.UID]; o != nil && o.waiting() {
			g.notify(o.uid)
		}
	}
}

func (g *graph) unlink(n *node) {
	for _, owner := range n.owners {
		delete(g.dependents[owner.UID], n.uid)
		if len(g.dependents[owner.UID]) == 0 {
			delete(g.dependents, owner.UID)
		}
		if waiting := g.awaited[kindOf(owner)]; waiting != nil {
			if delete(waiting, n.uid); len(waiting) == 0 {
				delete(g.awaited, kindOf(owner))
			}
		}
	}
}

// lookAgain requests another look at an object.
func (g *graph) lookAgain(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notify(uid)
}

// notify is lookAgain for callers that hold mu.
func (g *graph) notify(uid types.UID) {
	if g.look != nil {
		g.look(uid)
	}
}

// attach sets the function that is notified, at once about everything that is worth a look now.
func (g *graph) attach(look func(types.UID)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look = look
	for _, n := range g.nodes {
		g.consider(n)
	}
}

// detach undoes attach.
func (g *graph) detach() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look = nil
}

// forget removes an object that the API reports as gone.
func (g *graph) forget(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(uid)
}

// find returns copies of a node and of the nodes that depend on it.
func (g *graph) find(uid types.UID) (found node, dependents []node, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return node{}, nil, false
	}
	for dependent := range g.dependents[uid] {
		if d := g.nodes[dependent]; d != nil {
			dependents = append(dependents, *d)
		}
	}
	return *n, dependents, true
}

// elsewhere reports whether the graph knows the UID of a reference under another kind, name or
// namespace.
func (g *graph) elsewhere(ref metav1.OwnerReference, namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	owner := g.nodes[ref.UID]
	return owner != nil && !owner.is(ref, namespace)
}

// Name names the graph in messages about waiting for it.
func (g *graph) Name() string { return "the graph of owners" }

// Done is closed when every followed kind has had its first whole view.
func (g *graph) Done() <-chan struct{} { return g.whole }

// seen records the revision of a kind. The caller holds mu.
func (g *graph) seen(kind *scheme.Kind, revision int64) {
	known := g.followed[kind.GroupResource()]
	if known == nil {
		return
	}
	first := known.revision == 0
	if known.revision = max(revision, 1); !first {
		return
	}
	g.move()
	for uid := range g.awaited[kind.GroupKind()] {
		g.notify(uid)
	}
	delete(g.awaited, kind.GroupKind())
}

// behind returns those of kinds whose view is older than revision, and a channel that is closed when one of
// them has had its first view.
func (g *graph) behind(kinds []*scheme.Kind, revision int64) (behind []*scheme.Kind, moved <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, kind := range kinds {
		if known := g.followed[kind.GroupResource()]; known == nil || known.revision < revision {
			behind = append(behind, kind)
		}
	}
	return behind, g.moved
}

// require asks the followers of kinds to catch up with a revision.
func (g *graph) require(kinds []*scheme.Kind, revision int64) {
	var ask []func(int64)
	g.mu.Lock()
	for _, kind := range kinds {
		if known := g.followed[kind.GroupResource()]; known != nil {
			ask = append(ask, known.require)
		}
	}
	g.mu.Unlock()
	for _, require := range ask {
		require(revision)
	}
}
