package apiserver_test

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
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/follow"
	garboard "github.com/garboard/garboard/libs/scheme"
)

// seen is a sink that keeps a view's objects.
type seen struct {
	mu      sync.Mutex
	objects map[string]informer.Object
}

func (s *seen) Replace(objects []informer.Object, _ int64) {
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

// TestEveryKindTravels writes objects of every kind, and finds them in etcd, where client-go reads
// them, and with all who follow the kind, or the namespace, on the bus, as they are read over HTTP.
func TestEveryKindTravels(t *testing.T) {
	type views struct{ whole, namespace *seen }
	var following sync.WaitGroup
	defer following.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var source informer.Source
	forEvery(t, func(e *every) {
		if e.kind.Virtual {
			return
		}
		if source == nil {
			const who = "system:kube-controller-manager"
			api, err := client.New(e.server.service(who), e.table)
			if err != nil {
				e.Fatal(err)
			}
			source = follow.New(follow.Config{Conn: e.server.onBus(who), Table: e.table, Client: api})
		}
		v := views{&seen{}, &seen{}}
		follow := func(view informer.View, sink *seen) {
			follower := source.Follower(e.kind, view, sink)
			following.Go(func() {
				if err := follower.Run(ctx); err != nil {
					t.Errorf("following %s: %v", e.kind.GroupVersionKind, err)
				}
			})
		}
		before := e.create(1, nil)
		if e.kind.Stored() {
			follow(informer.View{}, v.whole)
			if e.namespace != "" {
				follow(informer.View{Namespace: e.namespace}, v.namespace)
			}
		}
		e.inEtcd(before.GetName())
		arrives := func(name string) {
			e.Helper()
			for what, sink := range map[string]*seen{"kind": v.whole, "namespace": v.namespace} {
				if !e.kind.Stored() || sink == v.namespace && e.namespace == "" {
					continue
				}
				awaitThat(e.T, fmt.Sprintf("%s to arrive with who follows its %s", name, what), func() error {
					obj := sink.get(e.namespace, name)
					g := e.do(http.MethodGet, e.at(name), asJSON, asJSON, "")
					if obj == nil || g.code != http.StatusOK {
						if obj == nil && g.code == http.StatusNotFound {
							return nil
						}
						return fmt.Errorf("it has %v, and over HTTP there is: %d", obj, g.code)
					}
					obj = obj.DeepCopyObject().(garboard.Object)
					obj.GetObjectKind().SetGroupVersionKind(e.kind.GroupVersionKind)
					if diff := cmp.Diff(e.typed(g.body), e.encode(obj)); diff != "" {
						return fmt.Errorf("it differs from what is read over HTTP:\n%s", diff)
					}
					return nil
				})
			}
		}
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
	if e.kind.Group == "apiregistration.k8s.io" {
		// client-go does not know it; the aggregator's own types are those of the table.
		obj, gvk, err = e.table.Codecs().UniversalDeserializer().Decode([]byte(value), nil, nil)
	}
	if err != nil {
		e.Fatal(err)
	}
	access, err := meta.Accessor(obj)
	if err != nil {
		e.Fatal(err)
	}
	if *gvk != e.kind.Storage || access.GetName() != name || access.GetUID() == "" || access.GetResourceVersion() != "" {
		e.Errorf("etcd holds a %s %q, uid %q, resourceVersion %q", gvk, access.GetName(), access.GetUID(), access.GetResourceVersion())
	}
}
