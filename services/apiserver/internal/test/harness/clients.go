package harness

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/client"
)

// Typed returns client-go's clients of all kinds.
func Typed(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// StatusOf returns the Status that client-go made an error of.
func StatusOf(t testing.TB, err error) metav1.Status {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("%v is not an API error", err)
	}
	return status.Status()
}

// Exchange makes one request and returns the response with its whole body.
func (s *Server) Exchange(config *rest.Config, method, path, body string, header map[string]string) (*http.Response, string) {
	s.T.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		s.T.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.T.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	for key, value := range header {
		req.Header.Set(key, value)
	}
	res, err := client.Do(req)
	if err != nil {
		s.T.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return res, string(data)
}

// Carried returns config with its calls sent over NATS, with the same identity.
func (s *Server) Carried(t testing.TB, config *rest.Config) *rest.Config {
	t.Helper()
	conn := s.Bus.ConnectAs(client.BusConfig(config, bus.Config{Name: t.Name()}))
	over, err := bushttp.New(t.Context(), bushttp.Config{Conn: conn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(over.Close)
	carried := client.Over(config, over)
	for deadline := time.Now().Add(Patience); ; {
		// The apiserver may not be connected to NATS yet.
		_, err := Typed(t, carried).Discovery().RESTClient().Get().AbsPath("/version").DoRaw(t.Context())
		if !utilnet.IsConnectionRefused(err) {
			return carried
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// PodJSON is a small valid pod.
const PodJSON = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`

// CreatePod creates PodJSON and the service account that it needs in the namespace default.
func (s *Server) CreatePod(config *rest.Config) {
	s.T.Helper()
	const namespace = "/api/v1/namespaces/default"
	account := `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`
	for _, it := range []struct{ path, body string }{{namespace + "/serviceaccounts", account}, {namespace + "/pods", PodJSON}} {
		res, answer := s.Exchange(config, "POST", it.path, it.body, map[string]string{"Content-Type": "application/json"})
		if res.StatusCode != 201 {
			s.T.Fatalf("creating %s: %d %s", it.path, res.StatusCode, answer)
		}
	}
}

// Pod returns a pod with one container, on a node and with the service account robot.
func Pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// Deployment returns a deployment with two replicas of one container.
func Deployment(name string) *appsv1.Deployment {
	replicas := int32(2)
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1.14.2"}}},
			},
		},
	}
}
