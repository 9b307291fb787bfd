package access_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestServiceAccountToken authenticates with a token from the token subresource.
func TestServiceAccountToken(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	ctx := t.Context()
	admin := harness.Typed(t, s.Admin())
	account, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := issue(t, admin, nil)
	config := s.Service("system:kube-scheduler")
	config.BearerToken = token
	robot := harness.Typed(t, config)
	_, err = robot.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	want := `pods is forbidden: User "system:serviceaccount:default:robot" cannot list resource "pods" in API group "" in the namespace "default"`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := admin.CoreV1().ServiceAccounts("default").Delete(ctx, "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(harness.Patience)
	for err = nil; !apierrors.IsUnauthorized(err); _, err = robot.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}) {
		if time.Now().After(deadline) {
			t.Fatalf("the token of a deleted service account is still accepted: %v", err)
		}
	}
	if account.UID == "" {
		t.Error("the service account has no UID")
	}
}

// TestBoundToken checks that a token bound to a pod names the pod and becomes invalid with it.
func TestBoundToken(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	ctx := t.Context()
	admin := harness.Typed(t, s.Admin())
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := admin.CoreV1().Pods("default").Create(ctx, harness.Pod("p", "n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := issue(t, admin, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": string(pod.UID)}})
	config := rest.AnonymousClientConfig(s.Admin())
	config.BearerToken = token
	if res, body := s.Exchange(config, "GET", "/apis", "", nil); res.StatusCode != 200 {
		t.Errorf("%s %s", res.Status, body)
	}
	const path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
	js := map[string]string{"Content-Type": "application/json"}
	for spec, want := range map[string]string{
		`{"expirationSeconds":599}`: "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
		`{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":"other"}}`:          "the UID in the bound object reference (other) does not match the UID in record",
		`{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"none"}}`:                     `pods \"none\" not found`,
		`{"boundObjectRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"none"}}`:         "cannot bind token to object of type apps/v1, Kind=Deployment",
		`{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"},"audiences":["vault"]}`:  `"audiences":["vault"]`,
		`{"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"none"},"audiences":null}`: `secrets \"none\" not found`,
	} {
		if _, body := s.Exchange(s.Admin(), "POST", path, `{"spec":`+spec+`}`, js); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", spec, body, want)
		}
	}
	none := int64(0)
	if err := admin.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(harness.Patience)
	for {
		res, body := s.Exchange(config, "GET", "/apis", "", nil)
		if res.StatusCode == http.StatusUnauthorized {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the token of a deleted pod is still accepted: %s %s", res.Status, body)
		}
	}
}

func issue(t *testing.T, client kubernetes.Interface, ref *unstructured.Unstructured) string {
	t.Helper()
	body := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 600}}
	if ref != nil {
		body["spec"].(map[string]any)["boundObjectRef"] = ref.Object
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	result, err := client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/serviceaccounts/robot/token").
		SetHeader("Content-Type", "application/json").Body(data).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("%v: %s", err, result)
	}
	var answer struct {
		Status struct{ Token string }
	}
	if err := json.Unmarshal(result, &answer); err != nil || answer.Status.Token == "" {
		t.Fatalf("got %s: %v", result, err)
	}
	return answer.Status.Token
}
