package clients_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/garboard/garboard/libs/informer/clientgo"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// wire counts the requests that go to the apiserver over HTTP.
type wire struct {
	mu   sync.Mutex
	seen map[string]int // number of requests by verb and path
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper { return counting{w, next} }

type counting struct {
	wire *wire
	next http.RoundTripper
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	verb := strings.ToLower(req.Method)
	if req.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	c.wire.mu.Lock()
	c.wire.seen[verb+" "+req.URL.Path]++
	c.wire.mu.Unlock()
	return c.next.RoundTrip(req)
}

// requests returns the requests whose verb and path contain text.
func (w *wire) requests(text string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	for request := range maps.Keys(w.seen) {
		if strings.Contains(request, text) {
			found = append(found, request)
		}
	}
	slices.Sort(found)
	return found
}

// adapted returns a configuration whose lists and watches ride NATS, and a count of the requests that
// still go over HTTP.
func adapted(s *harness.Server, config *rest.Config) (*rest.Config, *wire) {
	s.T.Helper()
	// Use connections of the test's own, which end with it.
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		s.T.Fatal(err)
	}
	base := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	s.T.Cleanup(base.CloseIdleConnections)
	config = rest.CopyConfig(config)
	config.TLSClientConfig, config.Transport = rest.TLSClientConfig{}, base
	counted := &wire{seen: map[string]int{}}
	config.Wrap(counted.wrap)
	conn := s.OnBus("system:kube-controller-manager")
	// Until NATS knows the client, lists and watches would go over HTTP.
	harness.Eventually(s.T, "NATS knows the client", conn.Connected)
	adapter, err := clientgo.New(clientgo.Config{
		REST: config, Conn: conn, Patience: harness.Patience,
		Logger: slog.New(slog.NewTextHandler(s.T.Output(), nil)),
	})
	if err != nil {
		s.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.T.Context()))
	ended := make(chan error, 1)
	go func() { ended <- adapter.Run(ctx) }()
	s.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.T.Errorf("the adapter ended with %v", err)
		}
	})
	return adapter.Config(), counted
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"k": "v"}}
}

// contents returns the UIDs and versions of objects by namespace and name.
func contents[T metav1.Object](objects []T) map[string]string {
	found := map[string]string{}
	for _, obj := range objects {
		found[obj.GetNamespace()+"/"+obj.GetName()] = string(obj.GetUID()) + "@" + obj.GetResourceVersion()
	}
	return found
}

// TestSharedInformersOverTheBus runs an unmodified client-go program, in each encoding: its
// informers hold what the apiserver holds, and none of their lists and watches go there.
func TestSharedInformersOverTheBus(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for name, contentType := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		t.Run(name, func(t *testing.T) {
			plain := harness.Typed(t, s.Admin())
			config := s.Admin()
			config.ContentType, config.AcceptContentTypes = contentType, contentType
			fed, counted := adapted(s, config)
			clients := harness.Typed(t, fed)
			ctx, cancel := context.WithCancel(t.Context())
			maps := plain.CoreV1().ConfigMaps("default")
			for i := range 5 {
				if _, err := maps.Create(ctx, configMap(fmt.Sprintf("%s-before-%d", name, i), map[string]string{"of": name}), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			whole := informers.NewSharedInformerFactory(clients, 0)
			selected := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace("default"),
				informers.WithTweakListOptions(func(opts *metav1.ListOptions) { opts.LabelSelector = "of=" + name + ",!hidden" }))
			all, some := whole.Core().V1().ConfigMaps(), selected.Core().V1().ConfigMaps()
			namespaces := whole.Core().V1().Namespaces()
			gone := make(chan string, 100)
			_, err := some.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
				if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
					gone <- key
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			all.Informer()
			namespaces.Informer()
			for _, factory := range []informers.SharedInformerFactory{whole, selected} {
				factory.StartWithContext(ctx)
				defer factory.Shutdown()
			}
			defer cancel()
			for _, factory := range []informers.SharedInformerFactory{whole, selected} {
				for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
					if !synced {
						t.Fatalf("the informer of %v did not sync", kind)
					}
				}
			}

			// Change objects in every way, then compare the content.
			for i := range 20 {
				object := configMap(fmt.Sprintf("%s-during-%d", name, i), map[string]string{"of": name})
				made, err := maps.Create(ctx, object, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				switch i % 4 {
				case 0:
					made.Data["k"] = "changed"
					_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
				case 1:
					made.Labels["hidden"] = "yes"
					_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
				case 2:
					err = maps.Delete(ctx, made.Name, metav1.DeleteOptions{})
				case 3:
					if err = maps.Delete(ctx, made.Name, metav1.DeleteOptions{}); err == nil {
						_, err = maps.Create(ctx, object, metav1.CreateOptions{})
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			same(t, plain, "", metav1.ListOptions{}, all.Lister())
			same(t, plain, "default", metav1.ListOptions{LabelSelector: "of=" + name + ",!hidden"}, some.Lister())
			told := map[string]bool{}
			for len(told) < 10 { // Five were deleted and five left the selection.
				select {
				case key := <-gone:
					told[key] = true
				case <-time.After(harness.Patience):
					t.Fatalf("the handler was notified only of these deletions: %v", told)
				}
			}
			if nodes, err := namespaces.Lister().List(labels.Everything()); err != nil || len(nodes) < 4 {
				t.Errorf("namespaces: %v, %v", nodes, err)
			}
			if requests := append(counted.requests("watch /api/v1/"), counted.requests("get /api/v1/")...); len(requests) > 0 {
				t.Errorf("these requests went to the apiserver over HTTP: %v", requests)
			}
		})
	}
}

// same waits until a lister holds what the apiserver lists.
func same(t *testing.T, clients kubernetes.Interface, namespace string, opts metav1.ListOptions, lister interface {
	List(selector labels.Selector) ([]*corev1.ConfigMap, error)
}) {
	t.Helper()
	list, err := clients.CoreV1().ConfigMaps(namespace).List(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	listed := make([]*corev1.ConfigMap, len(list.Items))
	for i := range list.Items {
		listed[i] = &list.Items[i]
	}
	want := contents(listed)
	if len(want) == 0 {
		t.Fatal("there is nothing to compare")
	}
	harness.Await(t, "the informer to hold what the apiserver lists", func() error {
		objects, err := lister.List(labels.Everything())
		if err != nil {
			return err
		}
		if got := contents(objects); !maps.Equal(got, want) {
			return fmt.Errorf("the informer holds\n%v\nthe apiserver\n%v", got, want)
		}
		return nil
	})
}

// TestManagerOverTheBus runs an unmodified controller-runtime manager whose controller labels
// config maps, with caches that ride NATS.
func TestManagerOverTheBus(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	fed, counted := adapted(s, s.Admin())
	ctx, cancel := context.WithCancel(t.Context())
	manager, err := ctrl.NewManager(fed, ctrl.Options{
		Logger: logr.Discard(), Scheme: clientgoscheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(manager).Named("labeller").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&labeller{manager.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	}()
	plain := harness.Typed(t, s.Admin()).CoreV1().ConfigMaps("default")
	for i := range 20 {
		if _, err := plain.Create(ctx, configMap(fmt.Sprint("text-", i), nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	harness.Await(t, "the controller to label all", func() error {
		list, err := plain.List(ctx, metav1.ListOptions{LabelSelector: "seen=yes"})
		if err != nil {
			return err
		}
		if len(list.Items) < 20 {
			return fmt.Errorf("labelled only %d", len(list.Items))
		}
		return nil
	})
	// The manager's client reads from the cache.
	harness.Await(t, "the cache to have the labels", func() error {
		var list corev1.ConfigMapList
		if err := manager.GetClient().List(ctx, &list, client.MatchingLabels{"seen": "yes"}); err != nil {
			return err
		}
		if len(list.Items) < 20 {
			return errors.New("not yet")
		}
		return nil
	})
	for _, resource := range []string{"configmaps", "secrets"} {
		if requests := append(counted.requests("watch /api/v1/"+resource), counted.requests("get /api/v1/"+resource)...); len(requests) > 0 {
			t.Errorf("these requests went to the apiserver over HTTP: %v", requests)
		}
	}
}

type labeller struct{ client client.Client }

func (l *labeller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	found := &corev1.ConfigMap{}
	if err := l.client.Get(ctx, request.NamespacedName, found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if found.Namespace != "default" || found.Labels["seen"] == "yes" {
		return ctrl.Result{}, nil
	}
	if found.Labels == nil {
		found.Labels = map[string]string{}
	}
	found.Labels["seen"] = "yes"
	return ctrl.Result{}, l.client.Update(ctx, found)
}

// TestMetadataOverTheBus follows only metadata, as garbage collectors do.
func TestMetadataOverTheBus(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	fed, counted := adapted(s, s.Admin())
	clients, err := metadata.NewForConfig(fed)
	if err != nil {
		t.Fatal(err)
	}
	plain := harness.Typed(t, s.Admin()).CoreV1().Secrets("default")
	made, err := plain.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}, StringData: map[string]string{"a": "b"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory := metadatainformer.NewSharedInformerFactory(clients, 0)
	secrets := factory.ForResource(corev1.SchemeGroupVersion.WithResource("secrets"))
	secrets.Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())
	obj, err := secrets.Lister().ByNamespace("default").Get("one")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := obj.(*metav1.PartialObjectMetadata); !ok || got.UID != made.UID {
		t.Errorf("the informer holds %#v", obj)
	}
	if err := plain.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the deletion", func() error {
		if _, err := secrets.Lister().ByNamespace("default").Get("one"); !apierrors.IsNotFound(err) {
			return errors.New("the secret is still in the cache")
		}
		return nil
	})
	if requests := append(counted.requests("watch /"), counted.requests("get /api")...); len(requests) > 0 {
		t.Errorf("these requests went to the apiserver over HTTP: %v", requests)
	}
}

// TestListsAndWatchesOverTheBus compares single lists and watches with Kubernetes' semantics.
func TestListsAndWatchesOverTheBus(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	fed, counted := adapted(s, s.Admin())
	ctx, plain, riding := t.Context(), harness.Typed(t, s.Admin()).CoreV1().ConfigMaps("default"), harness.Typed(t, fed).CoreV1().ConfigMaps("default")

	// Each list without a version shows everything that was written before it.
	var last *corev1.ConfigMap
	for i := range 30 {
		made, err := plain.Create(ctx, configMap(fmt.Sprintf("c-%02d", i), nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = made
		list, err := riding.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(list.Items); n < i+1 || list.Items[n-1].UID != made.UID && i > 0 && list.Items[n-1].Name != "kube-root-ca.crt" {
			t.Fatalf("after %d creations the list has %d items", i+1, n)
		}
		if newer(t, made.ResourceVersion, list.ResourceVersion) {
			t.Fatalf("the list has version %s, older than the write at %s", list.ResourceVersion, made.ResourceVersion)
		}
	}
	if n := counted.requests("get /api/v1/namespaces/default/configmaps"); len(n) > 0 {
		t.Errorf("these requests went over HTTP: %v", n)
	}
	for name, opts := range map[string]metav1.ListOptions{
		"not older":      {ResourceVersion: last.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		"a name":         {FieldSelector: "metadata.name=c-07"},
		"other names":    {FieldSelector: "metadata.name!=c-07"},
		"limit above":    {Limit: 500},
		"limit, any age": {Limit: 5, ResourceVersion: "0"},
	} {
		want, err := plain.List(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := riding.List(ctx, opts)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.EqualFunc(got.Items, want.Items, func(a, b corev1.ConfigMap) bool { return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion }) {
			t.Errorf("%s: got %d items, want %d in the same order", name, len(got.Items), len(want.Items))
		}
	}
	if n := counted.requests("get /api/v1/namespaces/default/configmaps"); len(n) > 0 {
		t.Errorf("these requests went over HTTP: %v", n)
	}
	// Requests that the bus cannot answer go to the apiserver.
	paged, err := riding.List(ctx, metav1.ListOptions{Limit: 5})
	if err != nil || len(paged.Items) != 5 || paged.Continue == "" {
		t.Errorf("a page: got %d items, %v", len(paged.Items), err)
	}
	exact, err := riding.List(ctx, metav1.ListOptions{ResourceVersion: last.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err != nil || exact.ResourceVersion != last.ResourceVersion {
		t.Errorf("an exact list: got version %s, %v", exact.ResourceVersion, err)
	}
	if _, err := riding.List(ctx, metav1.ListOptions{FieldSelector: "spec.colour=red"}); !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field: got %v, want 400", err)
	}
	if _, err := riding.List(ctx, metav1.ListOptions{LabelSelector: "a in ("}); !apierrors.IsBadRequest(err) {
		t.Errorf("a malformed selector: got %v, want 400", err)
	}

	// A watch from a list's version delivers exactly what comes after it.
	list, err := riding.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seconds := int64(3600)
	watching, err := riding.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	object, err := plain.Create(ctx, configMap("w", nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Data["k"] = "changed"
	if _, err := plain.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := plain.Delete(ctx, "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var seen []watch.EventType
	var lastSeen *corev1.ConfigMap
	for event := range watching.ResultChan() {
		if event.Type == watch.Bookmark {
			continue
		}
		seen = append(seen, event.Type)
		lastSeen = event.Object.(*corev1.ConfigMap)
		if event.Type == watch.Deleted {
			break
		}
	}
	if want := []watch.EventType{watch.Added, watch.Modified, watch.Deleted}; !slices.Equal(seen, want) {
		t.Errorf("watched %v, want %v", seen, want)
	}
	if lastSeen == nil || !newer(t, lastSeen.ResourceVersion, object.ResourceVersion) {
		t.Errorf("the deletion does not have its own version: %v", lastSeen)
	}
	if requests := counted.requests("watch "); len(requests) > 0 {
		t.Errorf("these requests went to the apiserver over HTTP: %v", requests)
	}

	// A watch from an unknown past goes to the apiserver, which answers it.
	past, err := riding.Watch(ctx, metav1.ListOptions{ResourceVersion: "1", TimeoutSeconds: &seconds})
	if err != nil {
		t.Fatal(err)
	}
	defer past.Stop()
	if event := <-past.ResultChan(); event.Type != watch.Error && event.Type != watch.Added {
		t.Errorf("from revision 1: got %v", event)
	}
	if requests := counted.requests("watch "); len(requests) != 1 {
		t.Errorf("the apiserver got the requests %v, want one watch", requests)
	}
	// A watch ends at its timeout.
	seconds = 6
	short, err := riding.Watch(ctx, metav1.ListOptions{TimeoutSeconds: &seconds})
	if err != nil {
		t.Fatal(err)
	}
	defer short.Stop()
	for range short.ResultChan() { //nolint:revive // Wait for the end of the watch.
	}
}

// newer reports whether version a is above b.
func newer(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y int64
	if _, err := fmt.Sscan(a, &x); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(b, &y); err != nil {
		t.Fatal(err)
	}
	return x > y
}

// TestRightsOverTheBus checks that the bus shows a client no more than the apiserver would, and
// that refusals have the apiserver's words.
func TestRightsOverTheBus(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := harness.Typed(t, s.Admin())
	ctx := t.Context()
	if _, err := admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fed, counted := adapted(s, s.Admin())
	// The administrator makes the adapter follow the views that jane may not see.
	for _, namespace := range []string{"", "kube-system"} {
		if _, err := harness.Typed(t, fed).CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	jane := rest.CopyConfig(fed)
	jane.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	clients := harness.Typed(t, jane)
	harness.Await(t, "jane's rights", func() error {
		_, err := clients.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	})
	before := len(counted.requests("get /api/v1/namespaces/default/configmaps"))
	if _, err := clients.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); err != nil || len(counted.requests("get /api/v1/namespaces/default/configmaps")) != before {
		t.Errorf("jane's list: got %v, or it went over HTTP", err)
	}
	want := `secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" at the cluster scope`
	if _, err := clients.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("jane's list of secrets: got %v", err)
	}
	if _, err := clients.CoreV1().Secrets("kube-system").Watch(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("jane's watch of secrets: got %v", err)
	}
	if _, err := clients.CoreV1().ConfigMaps("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("jane's list in another namespace: got %v", err)
	}
}
