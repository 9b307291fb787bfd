// Package admissiontest has what tests of admission plugins share: other objects, an authorizer, and
// requests that are admitted as a registry does.
package admissiontest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// World is what plugins look up: the objects in etcd, and a watch cache that may lack some of them.
type World struct {
	// Table is the set of served kinds.
	Table *scheme.Table

	mu       sync.Mutex
	objects  map[string]scheme.Object
	uncached map[string]scheme.Object // stale versions in the cache
	unlisted map[string]bool          // objects that lists of the cache lack
	appears  map[string]time.Time     // when an object starts to exist
	revision int
	refusal  error // of Create
}

// New returns a world with the namespace "ns", its default service account, and objs.
func New(objs ...scheme.Object) *World {
	w := &World{
		Table: scheme.New(), objects: map[string]scheme.Object{}, uncached: map[string]scheme.Object{}, unlisted: map[string]bool{}, appears: map[string]time.Time{},
	}
	w.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}})
	w.Put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"}})
	for _, obj := range objs {
		w.Put(obj)
	}
	return w
}

func (w *World) key(obj scheme.Object) string {
	return w.Table.KindOf(obj).Key(obj.GetNamespace(), obj.GetName())
}

// Put stores an object, in etcd and in the cache.
func (w *World) Put(obj scheme.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(obj)
}

func (w *World) put(obj scheme.Object) {
	w.revision++
	obj.SetResourceVersion(strconv.Itoa(w.revision))
	w.objects[w.key(obj)] = obj
}

// Remove removes an object from etcd and the cache.
func (w *World) Remove(obj scheme.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revision++
	delete(w.objects, w.key(obj))
}

// Stale puts obj into the cache in place of the object in etcd.
func (w *World) Stale(obj scheme.Object) { w.uncached[w.key(obj)] = obj }

// Unlist has lists of the cache lack an object.
func (w *World) Unlist(obj scheme.Object) { w.unlisted[w.key(obj)] = true }

// Appear has an object exist only after some time from now.
func (w *World) Appear(obj scheme.Object, after time.Duration) {
	w.appears[w.key(obj)] = time.Now().Add(after)
}

// Refuse has Create fail with err.
func (w *World) Refuse(err error) { w.refusal = err }

// Objects returns the world as plugins read it.
func (w *World) Objects() admission.Objects { return admission.Objects{Table: w.Table, Lookup: w} }

// Get implements admission.Lookup.
func (w *World) Get(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	w.mu.Lock()
	cached := w.uncached[kind.Key(namespace, name)]
	w.mu.Unlock()
	if cached != nil {
		return cached, nil
	}
	return w.Live(ctx, kind, namespace, name)
}

// Live implements admission.Lookup.
func (w *World) Live(_ context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := kind.Key(namespace, name)
	obj, ok := w.objects[key]
	if !ok || time.Now().Before(w.appears[key]) {
		return nil, apierrors.NewNotFound(kind.GroupResource(), name)
	}
	return obj, nil
}

// List implements admission.Lookup.
func (w *World) List(_ context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error) {
	return w.list(kind, namespace, w.unlisted)
}

func (w *World) list(kind *scheme.Kind, namespace string, but map[string]bool) ([]scheme.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []scheme.Object
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		obj := w.objects[key]
		if w.Table.KindOf(obj) == kind && !but[key] && (namespace == "" || obj.GetNamespace() == namespace) {
			found = append(found, obj)
		}
	}
	return found, nil
}

// LiveList implements admission.Lookup.
func (w *World) LiveList(_ context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error) {
	return w.list(kind, namespace, nil)
}

// ListSince implements admission.Lookup.
func (w *World) ListSince(ctx context.Context, kind *scheme.Kind, have admission.Version) ([]scheme.Object, admission.Version, bool, error) {
	w.mu.Lock()
	now := admission.Version{Start: 1, Head: int64(w.revision)}
	w.mu.Unlock()
	if now == have {
		return nil, have, false, nil
	}
	objs, err := w.List(ctx, kind, "")
	return objs, now, true, err
}

// Update implements admission.Lookup.
func (w *World) Update(ctx context.Context, kind *scheme.Kind, namespace, name string, change func(scheme.Object) (scheme.Object, error)) (scheme.Object, error) {
	obj, err := w.Live(ctx, kind, namespace, name)
	if err != nil {
		return nil, err
	}
	changed, err := change(obj.DeepCopyObject().(scheme.Object))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(changed)
	return changed, nil
}

// Create implements admission.Lookup.
func (w *World) Create(_ context.Context, obj scheme.Object) error {
	if w.refusal != nil {
		return w.refusal
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.objects[w.key(obj)]; ok {
		return apierrors.NewAlreadyExists(w.Table.KindOf(obj).GroupResource(), obj.GetName())
	}
	w.put(obj)
	return nil
}

// Authorizer remembers its questions, and decides by Allow; it allows nothing if that is nil.
type Authorizer struct {
	Allow func(authz.Attributes) bool
	// By and About are the names of the users and the attributes of all questions.
	By    []string
	About []authz.Attributes
}

// Authorize implements authz.Authorizer.
func (a *Authorizer) Authorize(_ context.Context, user authn.User, about authz.Attributes) (authz.Decision, string, error) {
	a.By = append(a.By, user.Name)
	a.About = append(a.About, about)
	if a.Allow != nil && a.Allow(about) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "no RBAC policy matched", nil
}

// Admit has the plugins admit a request of the user alice as a registry does, and returns the
// warnings. A request without a verb creates. One without a kind has that of its object, with the
// object's namespace and name.
func (w *World) Admit(t *testing.T, req *admission.Request, plugins ...admission.Plugin) ([]string, error) {
	t.Helper()
	return w.AdmitBy(t, req, admission.NewChain(plugins...))
}

// AdmitBy is Admit with a chain.
func (w *World) AdmitBy(t *testing.T, req *admission.Request, chain *admission.Chain) ([]string, error) {
	t.Helper()
	var warnings []string
	ctx := admission.WithWarnings(t.Context(), func(text string) { warnings = append(warnings, text) })
	ctx = authn.WithUser(ctx, authn.User{Name: "alice"})
	if req.Kind == nil {
		obj := req.Object
		if obj == nil {
			obj = req.Old
		}
		req.Kind = w.Table.KindOf(obj)
		req.Namespace, req.Name = obj.GetNamespace(), obj.GetName()
	}
	if req.Verb == "" {
		req.Verb = admission.Create
	}
	err := chain.Mutate(ctx, req)
	if err == nil {
		err = chain.Validate(ctx, req)
	}
	return warnings, err
}

// Refused fails the test unless err is a 403 with exactly the text want, or nil if want is empty.
func Refused(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got a refusal: %v", err)
	case want == "":
	case err == nil:
		t.Errorf("got no error, want %q", want)
	case !apierrors.IsForbidden(err):
		t.Errorf("got %v, which is not a 403", err)
	case err.Error() != want && !strings.HasSuffix(err.Error(), " is forbidden: "+want):
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

// Pod returns the pod "p" with one container in the namespace "ns".
func Pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// Namespace returns a namespace with labels, which are given as key, value, key, value.
func Namespace(name string, phase corev1.NamespacePhase, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Status: corev1.NamespaceStatus{Phase: phase}}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}
