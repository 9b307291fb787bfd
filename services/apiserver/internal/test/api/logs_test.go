package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestLogs reads a log over the bus from a stand-in of a node agent, and checks that a followed log
// ends with the server.
func TestLogs(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	ctx := t.Context()
	client := harness.Typed(t, s.Admin())
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := client.CoreV1().Pods("default").Create(ctx, harness.Pod("p", "n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	logs := client.CoreV1().Pods("default")
	_, err = logs.GetLogs("p", &corev1.PodLogOptions{}).DoRaw(ctx)
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("without a node agent: got %v", err)
	}
	s.ServeNode("n1", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		_, _ = fmt.Fprintf(w, "%s uid=%s tail=%s\n", r.URL.Path, query.Get("uid"), query.Get("tailLines"))
		if query.Get("follow") == "true" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	lines := int64(3)
	want := fmt.Sprintf("/containerLogs/default/p/c uid=%s tail=3\n", pod.UID)
	if got, err := logs.GetLogs("p", &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx); err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	stream, err := logs.GetLogs("p", &corev1.PodLogOptions{Follow: true, TailLines: &lines}).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	reader := bufio.NewReader(stream)
	if line, err := reader.ReadString('\n'); err != nil || line != want {
		t.Errorf("following: got %q, %v", line, err)
	}
	s.Stop()
	if _, err := io.ReadAll(reader); err == nil {
		t.Error("a log that was cut off by the server's shutdown looks complete")
	}
}
