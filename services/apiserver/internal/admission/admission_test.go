package admission

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what plugins look up: the objects in etcd, and a watch cache that may lack some of them.
type world struct {
	table *scheme.Table

	mu       sync.Mutex
	objects  map[string]scheme.Object
	uncached map[string]scheme.Object // stale versions in the cache
	unlisted map[string]bool          // objects that lists of the cache lack
	appears  map[string]time.Time     // when an object starts to exist
	revision int
	updates  int
}

// newWorld returns a world with the namespace "ns", its default service account, and objs.
func newWorld(objs ...scheme.Object) *world {
	w := &world{
		table: scheme.New(), objects: map[string]scheme.Object{}, uncached: map[string]scheme.Object{}, unlisted: map[string]bool{}, appears: map[string]time.Time{},
	}
	w.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}})
	w.put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"}})
	for _, obj := range objs {
		w.put(obj)
	}
	return w
}

func (w *world) key(obj scheme.Object) string {
	return w.table.KindOf(obj).Key(obj.GetNamespace(), obj.GetName())
}

func (w *world) put(obj scheme.Object) {
	w.revision++
	obj.SetResourceVersion(strconv.Itoa(w.revision))
	w.objects[w.key(obj)] = obj
}

// stale puts obj into the cache in place of the object in etcd.
func (w *world) stale(obj scheme.Object) { w.uncached[w.key(obj)] = obj }

func (w *world) Get(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	w.mu.Lock()
	cached := w.uncached[kind.Key(namespace, name)]
	w.mu.Unlock()
	if cached != nil {
		return cached, nil
	}
	return w.Live(ctx, kind, namespace, name)
}

func (w *world) Live(_ context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := kind.Key(namespace, name)
	obj, ok := w.objects[key]
	if !ok || time.Now().Before(w.appears[key]) {
		return nil, apierrors.NewNotFound(kind.GroupResource(), name)
	}
	return obj, nil
}

func (w *world) List(_ context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error) {
	return w.list(kind, namespace, w.unlisted)
}

func (w *world) list(kind *scheme.Kind, namespace string, but map[string]bool) ([]scheme.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []scheme.Object
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		obj := w.objects[key]
		if w.table.KindOf(obj) == kind && !but[key] && (namespace == "" || obj.GetNamespace() == namespace) {
			found = append(found, obj)
		}
	}
	return found, nil
}

func (w *world) LiveList(_ context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error) {
	return w.list(kind, namespace, nil)
}

func (w *world) Update(ctx context.Context, kind *scheme.Kind, namespace, name string, change func(scheme.Object) (scheme.Object, error)) (scheme.Object, error) {
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
	w.updates++
	w.put(changed)
	return changed, nil
}

// asked is an authorizer that remembers its questions and decides by allow.
type asked struct {
	allow func(authz.Attributes) bool
	by    []string
	about []authz.Attributes
}

func (a *asked) Authorize(_ context.Context, user authn.User, about authz.Attributes) (authz.Decision, string, error) {
	a.by = append(a.by, user.Name)
	a.about = append(a.about, about)
	if a.allow != nil && a.allow(about) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "no RBAC policy matched", nil
}

// try admits req as a registry does, with only the named plugins, or the default set if there are
// none. It returns the warnings.
func (w *world) try(t *testing.T, req *Request, authorizer authz.Authorizer, names ...string) ([]string, error) {
	t.Helper()
	cfg := Config{Table: w.table, Lookup: w, Authorizer: authorizer}
	if len(names) > 0 {
		cfg.Enable = names
		for _, name := range order() {
			if !slices.Contains(names, name) && slices.ContainsFunc(builtins(t, cfg), func(p Plugin) bool { return p.Name == name }) {
				cfg.Disable = append(cfg.Disable, name)
			}
		}
	}
	chain, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w.run(t, chain, req)
}

func (w *world) run(t *testing.T, chain *Chain, req *Request) ([]string, error) {
	t.Helper()
	var warnings []string
	ctx := WithWarnings(t.Context(), func(text string) { warnings = append(warnings, text) })
	ctx = authn.WithUser(ctx, authn.User{Name: "alice"})
	if req.Kind == nil {
		obj := req.Object
		if obj == nil {
			obj = req.Old
		}
		req.Kind = w.table.KindOf(obj)
		req.Namespace, req.Name = obj.GetNamespace(), obj.GetName()
	}
	if req.Verb == "" {
		req.Verb = Create
	}
	err := chain.Mutate(ctx, req)
	if err == nil {
		err = chain.Validate(ctx, req)
	}
	return warnings, err
}

func builtins(t *testing.T, cfg Config) []Plugin {
	t.Helper()
	plugins, err := builtin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return plugins
}

// refused fails the test unless err is a 403 with exactly the text want, or nil if want is empty.
func refused(t *testing.T, err error, want string) {
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

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}
