package informer_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// A revision that was used again in another history may stand for another state.
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
	say := func(history, node string, revision int64) {
		on := pod("a", "uid", 7)
		on.Spec.NodeName = node
		sink := s.followers[0].sink
		sink.(informer.Continuity).History(history)
		sink.Replace([]informer.Object{on}, revision)
		informer.Deliver(registration)
	}
	say("1", "n1", 10)
	say("1", "n1", 11)
	say("2", "n1", 9)
	if len(updated) != 0 {
		t.Errorf("updates of what did not change: %v", updated)
	}
	say("3", "n2", 9)
	if len(updated) != 1 || updated[0] != "n1 to n2" {
		t.Errorf("the updates are %v", updated)
	}
	if got := i.Indexer().List(); len(got) != 1 || got[0].Spec.NodeName != "n2" {
		t.Errorf("the store holds %v", got)
	}
}
