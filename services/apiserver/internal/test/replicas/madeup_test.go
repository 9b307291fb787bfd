package replicas_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

var gadgets = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gadgets"}

// gadgetKind returns what clients must know of gadgets, a kind that nobody has built in.
func gadgetKind() *scheme.Kind {
	return &scheme.Kind{
		GroupVersionKind: gadgets.GroupVersion().WithKind("Gadget"), Custom: true,
		Resource: gadgets.Resource, Singular: "gadget", ShortNames: []string{"gd"}, Namespaced: true,
		StoragePrefix: "example.org/gadgets",
	}
}

// gadgetDefinition returns a definition that counts generations and refuses gadgets without a size.
func gadgetDefinition() *kinds.Definition {
	return &kinds.Definition{
		Kind: gadgetKind(), Level: kinds.Full,
		Default:          func(obj scheme.Object) { setDefault(obj, "large", "spec", "size") },
		PrepareForCreate: func(obj scheme.Object) { obj.SetGeneration(1) },
		Validate: func(obj scheme.Object) field.ErrorList {
			errs := apivalidation.ValidateObjectMetaAccessor(obj, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
			if size, _, _ := unstructured.NestedString(content(obj), "spec", "size"); size == "huge" {
				errs = append(errs, field.Invalid(field.NewPath("spec", "size"), size, "does not fit"))
			}
			return errs
		},
		Update: kinds.Change{Prepare: func(obj, old scheme.Object) { obj.SetGeneration(old.GetGeneration() + 1) }},
	}
}

func content(obj scheme.Object) map[string]any { return obj.(*unstructured.Unstructured).Object }

func setDefault(obj scheme.Object, value string, path ...string) {
	if _, found, _ := unstructured.NestedString(content(obj), path...); !found {
		_ = unstructured.SetNestedField(content(obj), value, path...)
	}
}

func newGadget(name, size string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"parts": []any{"a", "b"}}}}
	obj.SetGroupVersionKind(gadgetKind().GroupVersionKind)
	obj.SetName(name)
	if size != "" {
		_ = unstructured.SetNestedField(obj.Object, size, "spec", "size")
	}
	return obj
}

// gadgetPlane is three apiservers whose catalogs change while they run.
type gadgetPlane struct {
	*replicas
	catalogs []*kinds.Catalog
	dynamic  []dynamic.Interface
}

func newGadgetPlane(t *testing.T) *gadgetPlane {
	t.Helper()
	p := &gadgetPlane{catalogs: make([]*kinds.Catalog, 3)}
	p.replicas = startReplicas(t, len(p.catalogs), func(i int, cfg *apiserver.Config) {
		cfg.Catalog = func(catalog *kinds.Catalog) { p.catalogs[i] = catalog }
	})
	for _, server := range p.servers {
		c, err := dynamic.NewForConfig(server.Admin())
		if err != nil {
			t.Fatal(err)
		}
		p.dynamic = append(p.dynamic, c)
	}
	return p
}

func (p *gadgetPlane) install() {
	p.t.Helper()
	for _, catalog := range p.catalogs {
		if err := catalog.Install(gadgetDefinition()); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *gadgetPlane) remove() {
	for _, catalog := range p.catalogs {
		if !catalog.Remove(gadgetKind().GroupVersionKind) {
			p.t.Error("the catalog does not have the kind")
		}
	}
}

func (p *gadgetPlane) of(i int) dynamic.ResourceInterface {
	return p.dynamic[i].Resource(gadgets).Namespace("default")
}

// TestMadeUpKind installs a kind on three running apiservers, uses it over HTTP and over the bus,
// and removes it.
func TestMadeUpKind(t *testing.T) {
	t.Parallel()
	p := newGadgetPlane(t)
	ctx := t.Context()
	if _, err := p.of(0).Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("before it is installed: %v", err)
	}
	p.install()
	p.discovered(true)
	var watches []watch.Interface
	for i := range p.servers {
		w, err := p.of(i).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	follower := p.follow()

	created, err := p.of(0).Create(ctx, newGadget("a", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedString(created.Object, "spec", "size"); size != "large" || created.GetUID() == "" || created.GetGeneration() != 1 {
		t.Errorf("created %v", created)
	}
	if _, err := p.of(1).Create(ctx, newGadget("b", "huge"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid gadget: %v", err)
	}
	patched, err := p.of(2).Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":"small"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	applied := newGadget("c", "medium")
	if _, err := p.of(1).Apply(ctx, "c", applied, metav1.ApplyOptions{FieldManager: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.of(1).Patch(ctx, "c", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("a strategic merge patch: %v", err)
	}
	list, err := p.of(2).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 || list.Items[0].GetKind() != "Gadget" || list.Items[0].GetResourceVersion() != patched.GetResourceVersion() {
		t.Errorf("the list is %v: %v", list, err)
	}
	for i, w := range watches {
		got := []string{next(t, w), next(t, w), next(t, w)}
		if want := []string{"ADDED a large", "MODIFIED a small", "ADDED c medium"}; !slices.Equal(got, want) {
			t.Errorf("the watch at %d got %v, want %v", i, got, want)
		}
	}
	follower.has("a small", "c medium")
	if via := follower.factory.Watchers()[0].Via; via != watcher.ViaNATS {
		t.Errorf("the informer follows via %s", via)
	}
	if err := p.of(0).Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range watches {
		if got := next(t, w); got != "DELETED c medium" {
			t.Errorf("got %s", got)
		}
	}
	follower.has("a small")

	p.remove()
	for i, w := range watches {
		select {
		case event, open := <-w.ResultChan():
			if open {
				t.Errorf("the watch at %d got %v, want its end", i, event)
			}
		case <-time.After(harness.Patience):
			t.Errorf("the watch at %d did not end with its kind", i)
		}
	}
	p.discovered(false)
	if _, err := p.of(1).List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after it was removed: %v", err)
	}
	follower.falls()
	p.forgotten()

	// What etcd holds is there again when the kind is, and the informer goes on.
	p.install()
	if again, err := p.of(1).Get(ctx, "a", metav1.GetOptions{}); err != nil || again.GetUID() != created.GetUID() {
		t.Errorf("after it was installed again: %v, %v", again, err)
	}
	if _, err := p.of(2).Create(ctx, newGadget("d", "tiny"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	follower.has("a small", "d tiny")
}

// forgotten waits until no apiserver measures a watch cache of the removed kind, or publishes it.
func (p *gadgetPlane) forgotten() {
	p.t.Helper()
	for _, c := range p.clients {
		harness.Eventually(p.t, "the metrics of the watch cache are gone", func() bool {
			text, err := c.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(p.t.Context())
			if err != nil {
				p.t.Fatal(err)
			}
			return !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
				return strings.Contains(line, `resource="gadgets"`) &&
					(strings.HasPrefix(line, "apiserver_watch_cache_") || strings.HasPrefix(line, "garboard_publisher_"))
			})
		})
	}
}

// next returns the next event of a watch.
func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		obj, typed := event.Object.(*unstructured.Unstructured)
		if !ok || !typed {
			return fmt.Sprintf("%v %v", event.Type, event.Object)
		}
		size, _, _ := unstructured.NestedString(obj.Object, "spec", "size")
		return fmt.Sprintf("%s %s %s", event.Type, obj.GetName(), size)
	case <-time.After(harness.Patience):
		return "nothing"
	}
}

// discovered waits until every apiserver's documents have the kind, or lack it.
func (p *gadgetPlane) discovered(want bool) {
	p.t.Helper()
	for i, server := range p.servers {
		config := rest.CopyConfig(server.Admin())
		config.Timeout = 5 * harness.Patience // the default is too short for OpenAPI v2 on a busy machine
		c, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			p.t.Fatal(err)
		}
		_, groups, err := c.ServerGroupsAndResources()
		if err != nil {
			p.t.Fatal(err)
		}
		found := slices.ContainsFunc(groups, func(l *metav1.APIResourceList) bool { return l.GroupVersion == gadgets.GroupVersion().String() })
		paths, err := c.OpenAPIV3().Paths()
		if err != nil {
			p.t.Fatal(err)
		}
		if _, documented := paths["apis/example.org/v1"]; found != want || documented != want {
			p.t.Errorf("apiserver %d: discovered %t, in OpenAPI %t, want %t", i, found, documented, want)
		}
		if want {
			if _, err := paths["apis/example.org/v1"].Schema("application/json"); err != nil {
				p.t.Errorf("apiserver %d: %v", i, err)
			}
			if document, err := c.OpenAPISchema(); err != nil || document == nil {
				p.t.Errorf("apiserver %d: OpenAPI v2: %v", i, err)
			}
		}
	}
}

// gadgetFollower follows gadgets with an informer over the bus.
type gadgetFollower struct {
	t        *testing.T
	factory  *informer.Factory
	informer informer.SharedInformer[*unstructured.Unstructured]
}

func (p *gadgetPlane) follow() *gadgetFollower {
	p.t.Helper()
	table := scheme.New()
	kind := gadgetKind()
	if err := table.Install(kind); err != nil {
		p.t.Fatal(err)
	}
	calls, err := client.New(p.servers[0].Service("system:kube-controller-manager"), table)
	if err != nil {
		p.t.Fatal(err)
	}
	conn := p.servers[0].OnBus("system:kube-controller-manager")
	f := &gadgetFollower{t: p.t, factory: informer.NewFactory(informer.FactoryConfig{
		Table: table, Source: fabricsource.New(fabricsource.Config{Conn: conn, Table: table, Client: calls}),
	})}
	f.informer = informer.ForKind[*unstructured.Unstructured](f.factory, kind, informer.View{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- f.factory.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	})
	return f
}

// has waits until the informer's store holds exactly these gadgets.
func (f *gadgetFollower) has(want ...string) {
	f.t.Helper()
	harness.Eventually(f.t, fmt.Sprintf("the informer has %q", want), func() bool {
		var got []string
		for _, obj := range f.informer.Indexer().List() {
			size, _, _ := unstructured.NestedString(obj.Object, "spec", "size")
			got = append(got, obj.GetName()+" "+size)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// falls waits until the informer no longer follows over the bus, where the kind is gone.
func (f *gadgetFollower) falls() {
	f.t.Helper()
	harness.Eventually(f.t, "the informer knows that its kind is gone", func() bool { return f.factory.Watchers()[0].Via == watcher.ViaHTTP })
}
