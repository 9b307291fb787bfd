package fabric_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/consistent"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestCut takes consistent cuts through four views while all of them change, and compares each with
// what etcd held at that revision.
func TestCut(t *testing.T) {
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	s, _ := replica(t, etcd, server.Connect())
	source := fabricsource.New(fabricsource.Config{Conn: server.Connect(), Table: table, Client: fake.New(table), Logger: quiet})
	factory := informer.NewFactory(informer.FactoryConfig{Source: source, Table: table, Logger: quiet, Service: "test"})
	pods := consistent.Of(informer.For[*corev1.Pod](factory))
	some := consistent.Of(informer.ForView[*corev1.Pod](factory, informer.View{Namespace: "a"}))
	bound := consistent.Of(informer.ForView[*corev1.Pod](factory, informer.View{Scope: "n1"}))
	configs := consistent.Of(informer.For[*corev1.ConfigMap](factory))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := factory.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	// Two writers write concurrently, as fast as they can, until all cuts are taken.
	configKind := scheme.For[*corev1.ConfigMap](table)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		random := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-stop:
				return
			default:
				churn(t, s, random, 20)
			}
		}
	})
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprint("c", i%5)
			if _, err := s.Get(ctx, configKind, "a", name); err == nil {
				_, _ = s.Delete(ctx, configKind, "a", name, nil)
			} else {
				_, _ = s.Create(ctx, configKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u"}})
			}
		}
	})
	defer writing.Wait()
	defer close(stop)

	var last int64
	for range 50 {
		wait, done := context.WithTimeout(ctx, patience)
		revision, err := consistent.Take(wait, last+1, pods, some, bound, configs)
		done()
		if err != nil {
			t.Fatal(err)
		}
		if revision <= last {
			t.Fatalf("got a cut at %d, want %d", revision, last+1)
		}
		last = revision
		whole, configured := at(t, s, podKind, revision), at(t, s, configKind, revision)
		for name, views := range map[string][2]map[string]string{
			"all pods": {held(pods.Objects()), held(wanted(whole, func(*corev1.Pod) bool { return true }))},
			"a's pods": {held(some.Objects()), held(wanted(whole, func(p *corev1.Pod) bool { return p.Namespace == "a" }))},
			"n1's":     {held(bound.Objects()), held(wanted(whole, func(p *corev1.Pod) bool { return p.Spec.NodeName == "n1" }))},
			"configs":  {held(configs.Objects()), held(wanted(configured, func(*corev1.ConfigMap) bool { return true }))},
		} {
			if !maps.Equal(views[0], views[1]) {
				t.Fatalf("%s: the cut at %d holds\n%v, etcd held\n%v", name, revision, views[0], views[1])
			}
		}
	}
}

// at returns what etcd held of a kind at a revision.
func at(t *testing.T, s *store.Store, kind *scheme.Kind, revision int64) []scheme.Object {
	t.Helper()
	page, err := s.List(t.Context(), kind, store.ListOptions{Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	return page.Objects
}

func wanted[T scheme.Object](objects []scheme.Object, want func(T) bool) []T {
	var kept []T
	for _, object := range objects {
		if obj, ok := object.(T); ok && want(obj) {
			kept = append(kept, obj)
		}
	}
	return kept
}

func held[T scheme.Object](objects []T) map[string]string {
	found := map[string]string{}
	for _, obj := range objects {
		found[obj.GetNamespace()+"/"+obj.GetName()] = string(obj.GetUID()) + "@" + obj.GetResourceVersion()
	}
	return found
}
