package garbage

import (
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	deleting   bool // it has a deletionTimestamp
	foreground bool // it waits for its dependents to be deleted
	orphan     bool // it waits for its dependents to be released
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
	byKind     map[*scheme.Kind]map[string]types.UID
	revisions  map[*scheme.Kind]int64 // absent until the first whole view
	followed   []*scheme.Kind
	whole      chan struct{}   // closed when every followed kind has had its first whole view
	look       func(types.UID) // nil while no collector runs
}

func newGraph() *graph {
	return &graph{
		nodes:      map[types.UID]*node{},
		dependents: map[types.UID]map[types.UID]struct{}{},
		byKind:     map[*scheme.Kind]map[string]types.UID{},
		revisions:  map[*scheme.Kind]int64{},
		whole:      make(chan struct{}),
	}
}

// sink feeds one kind into the graph.
type sink struct {
	informer.SinkDefaults
	graph *graph
	kind  *scheme.Kind
}

var _ informer.Sink = sink{}

// Replace sets the kind's objects to exactly these.
func (s sink) Replace(at fabric.Position, objects []informer.Object) {
	g := s.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.byKind[s.kind]
	g.byKind[s.kind] = make(map[string]types.UID, len(objects))
	present := make(map[types.UID]struct{}, len(objects))
	for _, obj := range objects {
		present[obj.GetUID()] = struct{}{}
	}
	for _, uid := range left {
		if _, is := present[uid]; !is {
			g.remove(uid)
		}
	}
	for _, obj := range objects {
		g.put(s.kind, obj)
	}
	g.seen(s.kind, at.Revision)
}

// Apply applies changes in order.
func (s sink) Apply(changes []informer.Change, revision int64) {
	g := s.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range changes {
		change := &changes[i]
		key := informer.KeyOf(change.Namespace, change.Name)
		before := g.byKind[s.kind][key]
		switch {
		case change.Deleted:
			delete(g.byKind[s.kind], key)
			g.remove(before)
		case change.Object != nil:
			if before != "" && before != change.Object.GetUID() {
				g.remove(before)
			}
			g.put(s.kind, change.Object)
		}
	}
	g.seen(s.kind, revision)
}

// put adds or changes a node. The caller holds mu.
func (g *graph) put(kind *scheme.Kind, obj informer.Object) {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		revision = 0
	}
	next := &node{
		identity: identity{kind: kind, namespace: obj.GetNamespace(), name: obj.GetName(), uid: obj.GetUID()},
		owners:   slices.Clone(obj.GetOwnerReferences()), deleting: obj.GetDeletionTimestamp() != nil, revision: revision,
		foreground: slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents),
		orphan:     slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents),
	}
	if g.byKind[kind] == nil {
		g.byKind[kind] = map[string]types.UID{}
	}
	g.byKind[kind][informer.KeyOf(next.namespace, next.name)] = next.uid
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
	return n.kind.Kind == ref.Kind && n.name == ref.Name && groupOf(ref) == n.kind.Group &&
		(!n.kind.Namespaced || n.namespace == namespace)
}

// remove removes a deleted object from the graph. The caller holds mu.
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
	_, before := g.revisions[kind]
	g.revisions[kind] = revision
	if !before && len(g.revisions) == len(g.followed) {
		close(g.whole)
	}
}

// behind returns the kinds whose view is older than revision.
func (g *graph) behind(revision int64) []*scheme.Kind {
	g.mu.Lock()
	defer g.mu.Unlock()
	var kinds []*scheme.Kind
	for _, kind := range g.followed {
		if g.revisions[kind] < revision {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
