package garbage

import (
	"sync"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/aggregatedkinds"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
	"github.com/garboard/garboard/services/controllers/internal/tap"
)

// TestTappedKinds: the collector follows no kind that an informer follows already, and collects those kinds as others.
func TestTappedKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, deployment("web"), set("web-1", owner("apps/v1", "Deployment", "web", true)),
			pod("web-1-a", owner("apps/v1", "ReplicaSet", "web-1", true)), pod("other"))
		p.Allow("get list watch patch update delete *", controltest.Events)
		d := p.Deps()
		definitions, aggregated := customresources.New(d), aggregatedkinds.New(d)
		source := counted{listwatch.New(p.Client, d.Logger), map[string]int{}, &sync.Mutex{}}
		tapped := tap.New(source)
		informers := informer.NewFactory(informer.FactoryConfig{Source: tapped, Table: p.Table(), Logger: d.Logger, Service: "test"})
		informer.For[*corev1.Pod](informers)
		informer.For[*appsv1.ReplicaSet](informers)
		c := New(d, definitions, aggregated, source)
		c.Tap(tapped)
		p.Add(informers.Run)
		p.Add(definitions.Follow)
		p.Add(aggregated.Run)
		p.Add(c.Follow)
		p.Add(c.Run)
		p.Start()
		settle()
		for _, kind := range []string{"Pod", "ReplicaSet", "Deployment", "ConfigMap"} {
			if source.followers[kind] != 1 {
				t.Errorf("%d followers of %s, want 1", source.followers[kind], kind)
			}
		}
		p.Remove(controltest.Get[*appsv1.Deployment](p, "default", "web"))
		settle()
		if left := names(p); len(left) != 1 || left[0] != "Pod/other" {
			t.Errorf("left are %v, want the pod without an owner", left)
		}
		controltest.Create(p, pod("late", owner("apps/v1", "ReplicaSet", "web-1", true)))
		settle()
		if left := names(p); len(left) != 1 {
			t.Errorf("left are %v: a pod whose owner is gone was not collected", left)
		}
	})
}

// counted is a source that counts its followers by kind.
type counted struct {
	informer.Source
	followers map[string]int
	mu        *sync.Mutex
}

func (c counted) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followers[kind.Kind]++
	return c.Source.Follower(kind, view, sink)
}
