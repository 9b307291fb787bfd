package kinds_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	garboard "github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// seen is a sink that keeps the objects of a view.
type seen struct {
	informer.SinkDefaults
	mu      sync.Mutex
	objects map[string]informer.Object
}

func (s *seen) Replace(_ fabric.Position, objects []informer.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = map[string]informer.Object{}
	for _, obj := range objects {
		s.objects[path.Join(obj.GetNamespace(), obj.GetName())] = obj
	}
}

func (s *seen) Apply(changes []informer.Change, _ int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, change := range changes {
		key := path.Join(change.Namespace, change.Name)
		if change.Deleted {
			delete(s.objects, key)
		} else {
			s.objects[key] = change.Object
		}
	}
}

func (s *seen) get(namespace, name string) informer.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path.Join(namespace, name)]
}

// following holds the followers of all kinds.
type following struct {
	t       *testing.T
	source  informer.Source
	running sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

func newFollowing(t *testing.T) *following {
	f := &following{t: t}
	f.ctx, f.stop = context.WithCancel(t.Context())
	return f
}

func (f *following) end() {
	f.stop()
	f.running.Wait()
}

// follow follows a kind, if etcd holds it, and the namespace that it has in the test. It returns a
// function that waits until both hold an object as it is read over HTTP.
func (f *following) follow(e *every) (arrives func(name string)) {
	e.Helper()
	if !e.kind.Stored() {
		return func(string) {}
	}
	if f.source == nil {
		const who = "system:kube-controller-manager"
		api, err := client.New(e.server.Service(who), e.table)
		if err != nil {
			e.Fatal(err)
		}
		f.source = fabricsource.New(fabricsource.Config{Conn: e.server.OnBus(who), Table: e.table, Client: api})
	}
	sinks := map[informer.View]*seen{{}: {}}
	if e.namespace != "" {
		sinks[informer.View{Namespace: e.namespace}] = &seen{}
	}
	for view, sink := range sinks {
		follower := f.source.Follower(e.kind, view, sink)
		f.running.Go(func() {
			if err := follower.Run(f.ctx); err != nil {
				f.t.Errorf("following %s: %v", e.kind.GroupVersionKind, err)
			}
		})
	}
	return func(name string) {
		e.Helper()
		for view, sink := range sinks {
			harness.Await(e.T, fmt.Sprintf("%s to arrive at the follower of %+v", name, view), func() error {
				obj := sink.get(e.namespace, name)
				g := e.do(http.MethodGet, e.at(name), asJSON, asJSON, "")
				switch {
				case obj == nil && g.code == http.StatusNotFound:
					return nil
				case obj == nil || g.code != http.StatusOK:
					return fmt.Errorf("the follower has %v, and HTTP returns %d", obj, g.code)
				}
				obj = obj.DeepCopyObject().(garboard.Object)
				obj.GetObjectKind().SetGroupVersionKind(e.kind.GroupVersionKind)
				if diff := cmp.Diff(atAnyTime(e.typed(g.body)), atAnyTime(e.encode(obj))); diff != "" {
					return fmt.Errorf("the object differs from what is read over HTTP:\n%s", diff)
				}
				return nil
			})
		}
	}
}

// TestEveryKindTravels writes objects of every kind, and finds them in etcd, where client-go reads
// them, and at all followers of the kind or the namespace on the bus, as they are read over HTTP.
func TestEveryKindTravels(t *testing.T) {
	t.Parallel()
	following := newFollowing(t)
	defer following.end()
	forEvery(t, func(e *every) {
		if e.kind.Virtual {
			return
		}
		before := e.create(1, nil)
		arrives := following.follow(e)
		e.inEtcd(before.GetName())
		arrives(before.GetName())
		created := e.create(2, nil)
		arrives(created.GetName())
		e.want(http.StatusOK, e.do(http.MethodPatch, e.at(created.GetName()), mergePatch, asJSON, `{"metadata":{"annotations":{"example.com/a":"b"}}}`))
		arrives(created.GetName())
		e.want(http.StatusOK, e.do(http.MethodDelete, e.at(created.GetName(), "gracePeriodSeconds=0"), asJSON, asJSON, ""))
		e.gone(created.GetName())
		arrives(created.GetName())
	})
}

// inEtcd reads an object from etcd as a kube-apiserver would.
func (e *every) inEtcd(name string) {
	e.Helper()
	key := "/registry/" + e.kind.Key(e.namespace, name)
	value, ok := e.etcd.Values(e.T, key)[key]
	if !ok {
		e.Fatalf("etcd has nothing at %s", key)
	}
	obj, gvk, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(value), nil, nil)
	switch e.kind.Group {
	case "apiregistration.k8s.io":
		// client-go does not know the type; the aggregator's own types are those of the table.
		obj, gvk, err = e.table.Codecs().UniversalDeserializer().Decode([]byte(value), nil, nil)
	case "apiextensions.k8s.io":
		// Kubernetes stores it as v1beta1, which only the table knows.
		obj, err = e.table.DecodeStorage(e.kind, []byte(value))
		stored := e.kind.Encoded()
		gvk = &stored
	}
	if err != nil {
		e.Fatal(err)
	}
	access, err := meta.Accessor(obj)
	if err != nil {
		e.Fatal(err)
	}
	if *gvk != e.kind.Encoded() || access.GetName() != name || access.GetUID() == "" || access.GetResourceVersion() != "" {
		e.Errorf("etcd holds a %s %q, uid %q, resourceVersion %q", gvk, access.GetName(), access.GetUID(), access.GetResourceVersion())
	}
}
