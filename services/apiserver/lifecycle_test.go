package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestRestart checks that after a restart on the same data, clients go on with their old
// credentials and revisions.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	ctx := t.Context()
	made, err := harness.Typed(t, s.Admin()).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := s.Admin()
	s.Stop()
	s.Start()
	old.Host = s.URL
	client := harness.Typed(t, old)
	if got, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil || got.UID != made.UID {
		t.Errorf("got %v: %v", got, err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "second"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watching, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	if event := <-watching.ResultChan(); event.Object.(*corev1.ConfigMap).Name != "second" {
		t.Errorf("a watch from before the restart begins with %v", event)
	}
}

// TestDraining checks that the server's shutdown closes its watches, well before it gives up on
// requests in flight.
func TestDraining(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	watching, err := harness.Typed(t, s.Admin()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	s.Stop()
	for event := range watching.ResultChan() {
		t.Errorf("got %v", event)
	}
}
