package informer_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// TestEqualRevisionsOfTwoHistories: another history may use the same revision for another state.
func TestEqualRevisionsOfTwoHistories(t *testing.T) {
	s := &script{}
	i := informer.NewSharedInformer[*corev1.Pod](informer.Config{Source: s, Table: scheme.New()}, informer.View{})
	var updated []string
	registration, err := i.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		UpdateFunc: func(old, now *corev1.Pod) {
			updated = append(updated, old.Spec.NodeName+" to "+now.Spec.NodeName)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	say := func(history int64, node string, revision int64) {
		on := pod("a", "uid", 7)
		on.Spec.NodeName = node
		s.followers[0].sink.Replace(fabric.Position{History: fabric.History{Created: history}, Revision: revision}, []informer.Object{on})
		informer.Deliver(registration)
	}
	say(1, "n1", 10)
	say(1, "n1", 11)
	say(2, "n1", 9)
	if len(updated) != 0 {
		t.Errorf("updates without a change: %v", updated)
	}
	say(3, "n2", 9)
	if len(updated) != 1 || updated[0] != "n1 to n2" {
		t.Errorf("the updates are %v", updated)
	}
	if got := i.Indexer().List(); len(got) != 1 || got[0].Spec.NodeName != "n2" {
		t.Errorf("the store holds %v", got)
	}
}

// TestLagIsOfOneHistory checks that known revisions of a past history do not count as lag.
func TestLagIsOfOneHistory(t *testing.T) {
	s := &script{}
	i := informer.NewSharedInformer[*corev1.Pod](informer.Config{Source: s, Table: scheme.New()}, informer.View{})
	sink := s.followers[0].sink
	sink.Replace(fabric.Position{History: fabric.History{Created: 1}, Revision: 100}, nil)
	sink.Known(120)
	if lag := i.Status().LagRevisions; lag != 20 {
		t.Errorf("the lag is %d", lag)
	}
	sink.Replace(fabric.Position{History: fabric.History{Created: 2}, Revision: 9}, nil)
	if w := i.Status(); w.LagRevisions != 0 || w.LagSeconds != 0 {
		t.Errorf("the lag in another history is %d, for %v s", w.LagRevisions, w.LagSeconds)
	}
	sink.Known(11)
	if lag := i.Status().LagRevisions; lag != 2 {
		t.Errorf("the lag is %d", lag)
	}
}

// TestLagEndsWithTheWait checks that a revision counts as lag only while a caller waits for it: it
// may belong to another etcd, and never come.
func TestLagEndsWithTheWait(t *testing.T) {
	s := &script{}
	i := informer.NewSharedInformer[*corev1.Pod](informer.Config{Source: s, Table: scheme.New()}, informer.View{})
	sink := s.followers[0].sink
	sink.Replace(fabric.Position{Revision: 100}, nil)
	sink.Known(103)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.WaitForRevision(ctx, 1<<62) }()
	for deadline := time.Now().Add(time.Minute); i.Status().LagRevisions != 1<<62-100; {
		if time.Now().After(deadline) {
			t.Fatalf("the lag is %d", i.Status().LagRevisions)
		}
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the wait succeeded")
	}
	if lag := i.Status().LagRevisions; lag != 3 {
		t.Errorf("the lag is %d after the wait, want 3", lag)
	}
}
