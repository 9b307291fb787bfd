package clients_test

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestAnswersToWritesHaveTheirRevision: a write is answered with its revision even where Kubernetes
// responds with a bare Status, so that a controller can wait until its caches show the write.
func TestAnswersToWritesHaveTheirRevision(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	api, err := client.New(s.Admin(), scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	pods := client.Of[*corev1.Pod](api)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	if _, err := client.Of[*corev1.ServiceAccount](api).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	created, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var revision int64
	err = api.Do(t.Context(), client.Call{
		Verb: "create", Kind: pods.Kind(), Namespace: "default", Name: "web", Subresource: "binding", Revision: &revision,
		Body: &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := pods.Get(t.Context(), "default", "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if bound.ResourceVersion == created.ResourceVersion || bound.ResourceVersion != strconv.FormatInt(revision, 10) {
		t.Errorf("the response to the binding has revision %d; the pod was at %s and is at %s", revision, created.ResourceVersion, bound.ResourceVersion)
	}
}
