package informer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// TestFactory covers checklist I137 and I139, and informers requested after Run has begun.
func TestFactory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &script{}
		f := informer.NewFactory(informer.FactoryConfig{Source: source, Table: scheme.New(), Registerer: prometheus.NewRegistry()})
		pods := informer.For[*corev1.Pod](f)
		if informer.For[*corev1.Pod](f) != pods {
			t.Error("a second informer of one type")
		}
		scoped := informer.ForView[*corev1.Pod](f, informer.View{Scope: "node-1"})
		if scoped == pods || informer.ForView[*corev1.Pod](f, informer.View{Scope: "node-1"}) != scoped {
			t.Error("views do not have one informer each")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		synctest.Wait()
		late := informer.For[*corev1.Node](f)
		synctest.Wait()

		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		source.followers[0].sink.Replace(fabric.Position{Revision: 3}, nil)
		err := f.WaitForCacheSync(short)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nodes") ||
			!strings.Contains(err.Error(), "pods of scope node-1") {
			t.Errorf("the error does not name what is unsynced: %v", err)
		}
		for _, follower := range source.followers[1:] {
			follower.sink.Replace(fabric.Position{Revision: 3}, nil)
		}
		if err := f.WaitForCacheSync(ctx); err != nil {
			t.Error(err)
		}
		if !late.HasSynced() {
			t.Error("an informer that was asked for late has not synced")
		}
		if err := f.WaitForRevision(ctx, 3); err != nil {
			t.Errorf("waiting for a revision that all have: %v", err)
		}
		source.followers[0].sink.Apply(nil, 5)
		source.followers[1].sink.Apply(nil, 5)
		short, stop = context.WithTimeout(t.Context(), time.Second)
		defer stop()
		err = f.WaitForRevision(short, 5)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nodes") || strings.Contains(err.Error(), "pods") {
			t.Errorf("the error does not name the informers that are behind: %v", err)
		}
		time.AfterFunc(time.Second, func() { source.followers[2].sink.Apply(nil, 5) })
		if err := f.WaitForRevision(ctx, 5); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := late.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Node]{}); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("an informer was not ended: %v", err)
		}
	})
}

func TestFactoryEndsWithTheErrorOfAFollower(t *testing.T) {
	source := &script{err: errors.New("no such view")}
	f := informer.NewFactory(informer.FactoryConfig{Source: source, Table: scheme.New()})
	informer.For[*corev1.Pod](f)
	err := f.Run(t.Context())
	if !errors.Is(err, source.err) || !strings.Contains(err.Error(), "pods") {
		t.Errorf("Run returned %v", err)
	}
}

// TestForPanicsOnAnUnservedType: a type that is not served is a programming error.
func TestForPanicsOnAnUnservedType(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	informer.For[*corev1.RangeAllocation](informer.NewFactory(informer.FactoryConfig{Source: &script{}, Table: scheme.New()}))
}
