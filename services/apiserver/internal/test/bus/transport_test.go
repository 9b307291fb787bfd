package bus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestAuditIDOverNATS: a request over NATS has an audit ID as one over HTTPS has, and its client
// gets the ID.
func TestAuditIDOverNATS(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	carried := s.Carried(t, s.WithToken(harness.MasterToken))
	for _, given := range []string{"", "mine"} {
		res, body := s.Exchange(carried, http.MethodGet, "/api/v1/namespaces/default", "", map[string]string{"Audit-ID": given})
		if told := res.Header.Get("Audit-Id"); res.StatusCode != http.StatusOK || told == "" || given != "" && told != given {
			t.Errorf("%q: got %d %s and the ID %q", given, res.StatusCode, body, told)
		}
	}
}

// TestTypedClientOverNATS goes through the verbs with client-go's typed client.
func TestTypedClientOverNATS(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	for name, contentType := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			config := s.WithToken(harness.MasterToken)
			config.ContentType, config.AcceptContentTypes = contentType, contentType
			api := harness.Typed(t, s.Carried(t, config))
			deployments := api.AppsV1().Deployments("default")
			watching, err := deployments.Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			if err != nil {
				t.Fatal(err)
			}
			made, err := deployments.Create(ctx, harness.Deployment(name), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := deployments.Create(ctx, harness.Deployment(name), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("created twice: got %v", err)
			}
			stale := made.DeepCopy()
			made.Annotations = map[string]string{"a": "b"}
			if _, err := deployments.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := deployments.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("updating a stale object: got %v", err)
			}
			if _, err := deployments.Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"metadata":{"annotations":{"c":"d"}}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			if err := deployments.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := deployments.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("reading a deleted object: got %v", err)
			}
			for _, want := range []string{"ADDED", "MODIFIED", "MODIFIED", "DELETED"} {
				select {
				case event := <-watching.ResultChan():
					if string(event.Type) != want {
						t.Fatalf("the watch delivered %s, want %s: %v", event.Type, want, event.Object)
					}
				case <-time.After(harness.Patience):
					t.Fatalf("the watch does not deliver %s", want)
				}
			}
			watching.Stop()
			// Events from before the end may still arrive; the channel is closed after them.
			for range watching.ResultChan() {
			}
		})
	}
}

// TestSameRightsOverNATS compares the responses to users without rights, by each way of
// authenticating.
func TestSameRightsOverNATS(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	account, err := harness.Typed(t, s.Admin()).CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := "system:serviceaccount:default:" + account.Name
	if _, err := harness.Typed(t, s.Admin()).RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "view"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user, APIGroup: rbacv1.GroupName}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	carried := s.Carried(t, s.WithToken(harness.MasterToken)).Transport
	plain, err := rest.TransportFor(s.WithToken(""))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range []struct{ method, path, token, as, body string }{
		{"GET", "/api/v1/namespaces/default/pods", "", "", ""},
		{"GET", "/api/v1/namespaces/default/pods", "wrong", "", ""},
		{"GET", "/api/v1/namespaces/default/pods", harness.PoorToken, "", ""},
		{"GET", "/api/v1/namespaces/default/pods?watch=1", harness.PoorToken, "", ""},
		{"GET", "/api/v1/namespaces/default/pods", harness.MasterToken, "", ""},
		{"GET", "/api/v1/namespaces/default/pods", harness.MasterToken, user, ""},
		{"GET", "/api/v1/namespaces/default/secrets", harness.MasterToken, user, ""},
		{"GET", "/api/v1/namespaces/kube-system/pods", harness.MasterToken, user, ""},
		{"GET", "/api/v1/namespaces/default/pods", harness.PoorToken, user, ""},
		{"POST", "/api/v1/namespaces/default/configmaps", harness.PoorToken, "", `{"metadata":{"name":"x"}}`},
		{"POST", "/api/v1/namespaces/default/configmaps", harness.MasterToken, "", `{"metadata":{"name":"X"}}`},
		{"POST", "/api/v1/namespaces/default/configmaps", harness.MasterToken, "", `{`},
		{"PUT", "/api/v1/namespaces/default/configmaps/none", harness.MasterToken, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"none","resourceVersion":"1"}}`},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", harness.MasterToken, user, `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`},
		{"GET", "/healthz", "", "", ""},
		{"GET", "/version", "", "", ""},
		{"GET", "/metrics", "", "", ""},
		{"GET", "/nothing", harness.MasterToken, "", ""},
		{"PATCH", "/version", harness.MasterToken, "", ""},
	} {
		var got []string
		for _, by := range []http.RoundTripper{plain, carried} {
			r, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			if c.as != "" {
				r.Header.Set("Impersonate-User", c.as)
			}
			response, err := by.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			text := string(data)
			var review struct {
				Metadata struct{ CreationTimestamp, ResourceVersion string }
			}
			if json.Unmarshal(data, &review) == nil {
				for _, changing := range []string{review.Metadata.CreationTimestamp, review.Metadata.ResourceVersion} {
					if changing != "" {
						text = strings.ReplaceAll(text, changing, "")
					}
				}
			}
			for _, name := range []string{"Date", "Audit-Id", "Content-Length"} {
				response.Header.Del(name)
			}
			got = append(got, fmt.Sprintf("%s %v %s", response.Status, response.Header, text))
			seen[response.Status[:3]] = true
		}
		if got[0] != got[1] {
			t.Errorf("%s %s by %q as %q:\nover HTTPS: %s\nover NATS:  %s", c.method, c.path, c.token, c.as, got[0], got[1])
		}
	}
	for _, status := range []string{"200", "201", "400", "401", "403", "404", "405", "422"} {
		if !seen[status] {
			t.Errorf("no response has the code %s", status)
		}
	}
}

// TestLargeListOverNATS lists 10,000 objects, and reads and writes large ones.
func TestLargeListOverNATS(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	ctx := t.Context()
	api := harness.Typed(t, s.Carried(t, s.WithToken(harness.MasterToken)))
	const many = 10_000
	var group sync.WaitGroup
	for part := range 16 {
		group.Go(func() {
			for i := part; i < many; i += 16 {
				_, err := api.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%05d", i)}, Data: map[string]string{"text": strings.Repeat("x", 300)},
				}, metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	for _, limit := range []int64{0, 3000} {
		var names []string
		for opts := (metav1.ListOptions{Limit: limit}); ; {
			list, err := api.CoreV1().ConfigMaps("default").List(ctx, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range list.Items {
				names = append(names, item.Name)
			}
			if opts.Continue = list.Continue; opts.Continue == "" {
				break
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "c0") })
		if len(names) != many || !slices.IsSorted(names) {
			t.Errorf("with limit %d: got %d objects", limit, len(names))
		}
	}
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"text": strings.Repeat("y", 1000<<10)}}
	if _, err := api.CoreV1().ConfigMaps("default").Create(ctx, large, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := api.CoreV1().ConfigMaps("default").Get(ctx, "large", metav1.GetOptions{}); err != nil || got.Data["text"] != large.Data["text"] {
		t.Errorf("the large object differs: %v", err)
	}
	large.Name = "larger"
	large.Data["text"] = strings.Repeat("z", 4<<20)
	if _, err := api.CoreV1().ConfigMaps("default").Create(ctx, large, metav1.CreateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("writing an object that is too large: got %v", err)
	}
}

// TestInformersOverNATS runs client-go's own informers, with streaming lists.
func TestInformersOverNATS(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	admin := harness.Typed(t, s.Admin())
	api := harness.Typed(t, s.Carried(t, s.WithToken(harness.MasterToken)))
	factory := informers.NewSharedInformerFactory(api, 0)
	maps := factory.Core().V1().ConfigMaps()
	told := make(chan string, 100)
	if _, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { told <- "+" + obj.(*corev1.ConfigMap).Name },
		UpdateFunc: func(_, obj any) { told <- "~" + obj.(*corev1.ConfigMap).Name },
		DeleteFunc: func(obj any) { told <- "-" + obj.(*corev1.ConfigMap).Name },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), maps.Informer().HasSynced) {
		t.Fatal("the informer does not sync")
	}
	made, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Data = map[string]string{"a": "b"}
	if _, err := admin.CoreV1().ConfigMaps("default").Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := admin.CoreV1().ConfigMaps("default").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"+a", "~a", "-a"} {
		for got := ""; got != want; {
			select {
			case got = <-told:
			case <-time.After(harness.Patience):
				t.Fatalf("the informer does not report %s", want)
			}
		}
	}
}

// TestLogsOverNATS follows the log of a pod, and connects to a command in it, through two servers over NATS.
func TestLogsOverNATS(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	s.CreatePod(s.Admin())
	ctx := t.Context()
	pod, err := harness.Typed(t, s.Admin()).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(pod.Items) == 0 {
		t.Fatalf("the pod does not exist: %v", err)
	}
	name := pod.Items[0].Name
	if err := harness.Typed(t, s.Admin()).CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	next, ended := make(chan string), make(chan struct{})
	s.ServeNode("n1", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Header.Get("Upgrade") != "" {
			conn, _, err := control.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"+r.URL.Path+"\n")
			_, _ = io.Copy(conn, conn)
			return
		}
		for {
			_ = control.Flush()
			select {
			case line := <-next:
				if _, err := io.WriteString(w, line); err != nil {
					t.Error(err)
				}
			case <-r.Context().Done():
				close(ended)
				return
			}
		}
	})
	api := harness.Typed(t, s.Carried(t, s.WithToken(harness.MasterToken)))
	log, err := api.CoreV1().Pods("default").GetLogs(name, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		line := fmt.Sprintf("line %d\n", i)
		next <- line
		buffer := make([]byte, len(line))
		if _, err := io.ReadFull(log, buffer); err != nil || string(buffer) != line {
			t.Errorf("got %q, %v", buffer, err)
		}
	}
	_ = log.Close()
	select {
	case <-ended:
	case <-time.After(harness.Patience):
		t.Error("the log is still followed after its reader has gone")
	}
	exec := api.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(name).SubResource("exec").Param("command", "sh").URL()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, exec.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	response, err := api.CoreV1().RESTClient().(*rest.RESTClient).Client.Transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	conn, ok := response.Body.(io.ReadWriteCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || !ok {
		t.Fatalf("exec: got %s", response.Status)
	}
	defer func() { _ = conn.Close() }()
	for _, want := range []string{"/exec/default/" + name + "/c\n", "hello\n"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			t.Fatalf("exec: got %q, %v; want %q", got, err, want)
		}
		if _, err := io.WriteString(conn, "hello\n"); err != nil {
			t.Error(err)
		}
	}
}

// TestCarriedWatchEndsWithTheServer: a watch ends with its apiserver, and later calls go to the
// next apiserver.
func TestCarriedWatchEndsWithTheServer(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	config := s.Carried(t, s.WithToken(harness.MasterToken))
	api := harness.Typed(t, config)
	watching, err := api.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	for deadline := time.After(harness.Patience); ; {
		select {
		case _, open := <-watching.ResultChan():
			if open {
				continue
			}
		case <-deadline:
			t.Fatal("the watch goes on")
		}
		break
	}
	_, err = api.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if !utilnet.IsConnectionRefused(err) {
		t.Errorf("without an apiserver: got %v", err)
	}
	s.Start()
	for deadline := time.Now().Add(harness.Patience); ; {
		_, err := api.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestTransports checks what each transport needs, and that auto uses HTTPS while NATS is
// unreachable.
func TestTransports(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	conn := s.Bus.ConnectAs(client.BusConfig(s.WithToken(harness.MasterToken), bus.Config{Name: t.Name()}))
	if _, _, err := client.WithTransport(t.Context(), s.Admin(), client.Route{By: client.TransportNATS, Conn: conn}, nil); err == nil {
		t.Error("a client certificate was accepted for NATS")
	}
	if _, _, err := client.WithTransport(t.Context(), s.Admin(), client.Route{By: "pigeon", Conn: conn}, nil); err == nil {
		t.Error("an unknown transport was accepted")
	}
	if config, end, err := client.WithTransport(t.Context(), s.Admin(), client.Route{By: client.TransportAuto, Conn: conn}, nil); err != nil || config.Transport != nil {
		t.Errorf("a client certificate was refused for HTTPS: %v", err)
	} else {
		end()
	}
	config, end, err := client.WithTransport(t.Context(), s.WithToken(harness.MasterToken), client.Route{By: client.TransportAuto, Conn: conn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	api := harness.Typed(t, config)
	body := bytes.Repeat([]byte("x"), 400<<10)
	for _, name := range []string{"with-nats", "without-nats"} {
		if _, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, BinaryData: map[string][]byte{"x": body},
		}, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "with-nats" {
			s.Bus.Stop()
			// A call that was sent before the loss is noticed fails, like any call in flight.
			harness.Eventually(t, "the connection is lost", func() bool { return !conn.Connected() })
		}
	}
}
