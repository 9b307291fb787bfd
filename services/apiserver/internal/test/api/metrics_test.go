package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestMeasured reads what nodes and pods use, from a stand-in of a node agent, as kubectl top and an autoscaler
// do.
func TestMeasured(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	ctx, client := t.Context(), harness.Typed(t, s.Admin())
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var reports []string
	now := metav1.Now().Rfc3339Copy()
	used := fmt.Sprintf(`"cpu":{"time":%q,"usageNanoCores":250000001},"memory":{"workingSetBytes":5242880}`, now.UTC().Format(time.RFC3339))
	for _, name := range []string{"p", "q"} {
		pod := harness.Pod(name, "n1")
		pod.Labels = map[string]string{"app": name}
		created, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, fmt.Sprintf(`{"podRef":{"namespace":"default","name":%q,"uid":%q},"containers":[{"name":"c",%s}]}`, name, created.UID, used))
		created.Status.Phase = corev1.PodRunning
		if _, err := client.CoreV1().Pods("default").UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.ServeNode("n1", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"node":{%s},"pods":[%s]}`, used, strings.Join(reports, ","))
	})
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		config := rest.CopyConfig(s.Admin())
		config.ContentType = contentType
		metrics, err := metricsclient.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		harness.Await(t, "the pods to be measured", func() error { // The watch cache may lag behind.
			pods, err := metrics.MetricsV1beta1().PodMetricses("").List(ctx, metav1.ListOptions{LabelSelector: "app in (p, q)"})
			if err != nil || len(pods.Items) != 2 {
				return fmt.Errorf("got %d pods: %w", len(pods.Items), err)
			}
			return nil
		})
		pods, err := metrics.MetricsV1beta1().PodMetricses("default").List(ctx, metav1.ListOptions{LabelSelector: "app=q"})
		if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "q" || pods.Items[0].Containers[0].Usage.Cpu().String() != "250000001n" {
			t.Errorf("%s: got %+v, %v", contentType, pods, err)
		}
		nodes, err := metrics.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{LabelSelector: "zone=a"})
		if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Usage.Memory().String() != "5Mi" || !nodes.Items[0].Timestamp.Equal(&now) {
			t.Errorf("%s: got %+v, %v", contentType, nodes, err)
		}
		if node, err := metrics.MetricsV1beta1().NodeMetricses().Get(ctx, "n1", metav1.GetOptions{}); err != nil || node.Name != "n1" {
			t.Errorf("%s: got %+v, %v", contentType, node, err)
		}
		if _, err := metrics.MetricsV1beta1().PodMetricses("default").Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: a pod that does not exist: %v", contentType, err)
		}
	}
	res, body := s.Exchange(s.Admin(), "GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods", "", map[string]string{"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
	if want := `"cells":["p","250000001n","5Mi","15s"]`; res.StatusCode != 200 || !strings.Contains(body, want) {
		t.Errorf("got %d %s, want %s", res.StatusCode, body, want)
	}
	topAsViewer(t, s)
}

// topAsViewer reads as a user who may view a namespace, whose role is aggregated as the controllers do it.
func topAsViewer(t *testing.T, s *harness.Server) {
	t.Helper()
	ctx, client := t.Context(), harness.Typed(t, s.Admin())
	reader, err := client.RbacV1().ClusterRoles().Get(ctx, "system:garboard:aggregated-metrics-reader", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, into := range []string{"view", "edit", "admin"} {
		if reader.Labels["rbac.authorization.k8s.io/aggregate-to-"+into] != "true" {
			t.Errorf("the role has the labels %v", reader.Labels)
		}
	}
	_, err = client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "viewer"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	viewer := rest.CopyConfig(s.Admin())
	viewer.Impersonate.UserName = "viewer"
	metrics, err := metricsclient.NewForConfig(viewer)
	if err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the viewer to be allowed", func() error {
		_, err := metrics.MetricsV1beta1().PodMetricses("default").Get(ctx, "p", metav1.GetOptions{})
		return err
	})
	if _, err := metrics.MetricsV1beta1().PodMetricses("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the viewer of a namespace lists all: %v", err)
	}
}
