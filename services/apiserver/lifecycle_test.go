package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver"
)

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// TestRestart checks that after a restart on the same data, clients go on with their old
// credentials and revisions.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ctx := t.Context()
	made, err := typed(t, s.admin()).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := s.admin()
	s.stop()
	s.start()
	old.Host = s.url
	client := typed(t, old)
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

func TestStartFailsPlainly(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  apiserver.Config
		says string
	}{
		"empty":        {apiserver.Config{}, "no etcd server is set"},
		"bad address":  {apiserver.Config{Listen: "x"}, `"x", is not HOST:PORT`},
		"bad services": {apiserver.Config{ServiceCIDR: "x"}, "range of service addresses"},
	} {
		if _, err := apiserver.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.New(apiserver.Config{
		Listen: "127.0.0.1:0", CertDir: dir, EtcdServers: []string{"http://127.0.0.1:1"}, Bus: bus.Config{URLs: []string{"nats://127.0.0.1:1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ca.crt is damaged") {
		t.Errorf("with a damaged certificate: got %v", err)
	}
}

// TestMessages checks that a write is published as a watch message over NATS.
func TestMessages(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	conn := s.onBus("system:kube-controller-manager")
	messages := make(chan *watchv1.Message, 100)
	sub, err := conn.Subscribe(t.Context(), bus.ResourceSubject("", "configmaps"), func(m bus.Message) {
		message := &watchv1.Message{}
		if err := proto.Unmarshal(m.Data, message); err == nil && message.GetName() == "told" {
			messages <- message
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	published(t, conn, "", "configmaps")
	made, err := typed(t, s.admin()).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "told"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case message := <-messages:
		if fmt.Sprint(message.GetRevision()) != made.ResourceVersion || message.GetUid() != string(made.UID) {
			t.Errorf("got the message %v", message)
		}
	case <-time.After(patience):
		t.Fatal("no message arrives")
	}
}

// TestLogs reads a log over the bus from a stand-in of a node agent, and checks that a followed log
// ends with the server.
func TestLogs(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ctx := t.Context()
	client := typed(t, s.admin())
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := client.CoreV1().Pods("default").Create(ctx, newPod("p", "n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	logs := client.CoreV1().Pods("default")
	_, err = logs.GetLogs("p", &corev1.PodLogOptions{}).DoRaw(ctx)
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("without a node agent: got %v", err)
	}
	node := s.onBus("system:node:n1")
	served, err := node.ServeStream(ctx, bus.NodeSubject("n1", "logs"), "", func(ctx context.Context, request []byte, w io.Writer) error {
		var asked struct {
			UID       string
			Container string
			Follow    bool
			TailLines int64
		}
		if err := json.Unmarshal(request, &asked); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "{}\nuid=%s container=%s tail=%d\n", asked.UID, asked.Container, asked.TailLines)
		if asked.Follow {
			<-ctx.Done()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer served.Unsubscribe()
	if err := node.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	lines := int64(3)
	want := fmt.Sprintf("uid=%s container=c tail=3\n", pod.UID)
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
	s.stop()
	if _, err := io.ReadAll(reader); err == nil {
		t.Error("a log that was cut off by the server's shutdown looks complete")
	}
}

// TestDraining checks that the server's shutdown closes its watches, well before it gives up on
// requests in flight.
func TestDraining(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	watching, err := typed(t, s.admin()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	s.stop()
	for event := range watching.ResultChan() {
		t.Errorf("got %v", event)
	}
}

// TestBoundToken checks that a token bound to a pod names the pod and becomes invalid with it.
func TestBoundToken(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ctx := t.Context()
	admin := typed(t, s.admin())
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := admin.CoreV1().Pods("default").Create(ctx, newPod("p", "n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := issue(t, admin, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": string(pod.UID)}})
	config := rest.AnonymousClientConfig(s.admin())
	config.BearerToken = token
	if res, body := s.exchange(config, "GET", "/apis", "", nil); res.StatusCode != 200 {
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
		if _, body := s.exchange(s.admin(), "POST", path, `{"spec":`+spec+`}`, js); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", spec, body, want)
		}
	}
	none := int64(0)
	if err := admin.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		res, body := s.exchange(config, "GET", "/apis", "", nil)
		if res.StatusCode == http.StatusUnauthorized {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the token of a deleted pod is still accepted: %s %s", res.Status, body)
		}
	}
}
