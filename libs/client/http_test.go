package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is a request as a server saw it.
type seen struct {
	method, path, query, accept, contentType string
	body                                     []byte
}

// server answers every request with handle and records it.
func server(t *testing.T, handle http.HandlerFunc) (*client.HTTP, func() []seen) {
	t.Helper()
	var mu sync.Mutex
	var all []seen
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading a request: %v", err)
		}
		mu.Lock()
		all = append(all, seen{
			method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, accept: r.Header.Get("Accept"),
			contentType: r.Header.Get("Content-Type"), body: body,
		})
		mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(&rest.Config{Host: s.URL, Transport: transport}, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	return c, func() []seen {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// answer writes obj in Kubernetes protobuf.
func answer(t *testing.T, w http.ResponseWriter, code int, obj runtime.Object) {
	t.Helper()
	table := scheme.New()
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(code)
	if err := protobuf.NewSerializer(table.Scheme(), table.Scheme()).Encode(obj, w); err != nil {
		t.Errorf("answering: %v", err)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "7"},
	}
}

func TestRequests(t *testing.T) {
	c, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			answer(t, w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
		case strings.Contains(r.URL.Path, "deployments"):
			answer(t, w, http.StatusOK, &appsv1.Deployment{
				TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"},
			})
		case strings.Contains(r.URL.Path, "nodes"):
			answer(t, w, http.StatusOK, &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		default:
			answer(t, w, http.StatusOK, pod("a"))
		}
	})
	ctx := t.Context()
	pods, deployments, nodes := client.Of[*corev1.Pod](c), client.Of[*appsv1.Deployment](c), client.Of[*corev1.Node](c)
	five := int64(5)
	for _, test := range []struct {
		name                string
		call                func() error
		method, path, query string
	}{
		{"get", func() error { _, err := pods.Get(ctx, "ns", "a", metav1.GetOptions{}); return err },
			"GET", "/api/v1/namespaces/ns/pods/a", ""},
		{"get of a group", func() error {
			_, err := deployments.Get(ctx, "ns", "d", metav1.GetOptions{ResourceVersion: "0"})
			return err
		},
			"GET", "/apis/apps/v1/namespaces/ns/deployments/d", "resourceVersion=0"},
		{"get of a cluster-scoped kind", func() error { _, err := nodes.Get(ctx, "", "n", metav1.GetOptions{}); return err },
			"GET", "/api/v1/nodes/n", ""},
		{"create", func() error {
			_, err := pods.Create(ctx, pod("a"), metav1.CreateOptions{FieldManager: "me"})
			return err
		},
			"POST", "/api/v1/namespaces/ns/pods", "fieldManager=me"},
		{"binding", func() error {
			return pods.CreateSubresource(ctx, "ns", "a", "binding", &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}, nil, metav1.CreateOptions{})
		}, "POST", "/api/v1/namespaces/ns/pods/a/binding", ""},
		{"update", func() error { _, err := pods.Update(ctx, pod("a"), metav1.UpdateOptions{}); return err },
			"PUT", "/api/v1/namespaces/ns/pods/a", ""},
		{"update of a status", func() error { _, err := pods.UpdateStatus(ctx, pod("a"), metav1.UpdateOptions{}); return err },
			"PUT", "/api/v1/namespaces/ns/pods/a/status", ""},
		{"patch of a status", func() error {
			_, err := pods.Patch(ctx, "ns", "a", types.StrategicMergePatchType, []byte(`{"x":1}`), metav1.PatchOptions{}, "status")
			return err
		}, "PATCH", "/api/v1/namespaces/ns/pods/a/status", ""},
		{"delete", func() error { return pods.Delete(ctx, "ns", "a", metav1.DeleteOptions{GracePeriodSeconds: &five}) },
			"DELETE", "/api/v1/namespaces/ns/pods/a", ""},
		{"deletecollection", func() error {
			return pods.DeleteCollection(ctx, "ns", metav1.DeleteOptions{GracePeriodSeconds: &five}, metav1.ListOptions{LabelSelector: "a=b"})
		}, "DELETE", "/api/v1/namespaces/ns/pods", "labelSelector=a%3Db"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.call(); err != nil {
				t.Fatal(err)
			}
			all := requests()
			got := all[len(all)-1]
			if got.method != test.method || got.path != test.path || got.query != test.query {
				t.Errorf("%s %s?%s, want %s %s?%s", got.method, got.path, got.query, test.method, test.path, test.query)
			}
			if !strings.HasPrefix(got.accept, runtime.ContentTypeProtobuf) {
				t.Errorf("accepts %q", got.accept)
			}
			switch test.name {
			case "patch of a status":
				if got.contentType != string(types.StrategicMergePatchType) || string(got.body) != `{"x":1}` {
					t.Errorf("sent %s %q", got.contentType, got.body)
				}
			case "create", "update", "delete", "deletecollection", "binding":
				if got.contentType != runtime.ContentTypeProtobuf || !strings.HasPrefix(string(got.body), "k8s\x00") {
					t.Errorf("sent %s %q", got.contentType, got.body)
				}
			}
		})
	}
}

func TestDeleteOptionsTravelAsTheBody(t *testing.T) {
	c, requests := server(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(t, w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	})
	uid := types.UID("u")
	err := client.Of[*corev1.Pod](c).Delete(t.Context(), "ns", "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := scheme.New().Codecs().UniversalDeserializer().Decode(requests()[0].body, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if opts, ok := obj.(*metav1.DeleteOptions); !ok || opts.Preconditions == nil || *opts.Preconditions.UID != "u" {
		t.Errorf("sent %#v", obj)
	}
}

func TestReadObjectsHaveTheirKind(t *testing.T) {
	c, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { answer(t, w, http.StatusOK, pod("a")) })
	got, err := client.Of[*corev1.Pod](c).Get(t.Context(), "ns", "a", metav1.GetOptions{})
	if err != nil || got.Name != "a" || got.ResourceVersion != "7" || got.Kind != "Pod" || got.APIVersion != "v1" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestJSONResponses(t *testing.T) {
	c, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(pod("a")); err != nil {
			t.Error(err)
		}
	})
	if got, err := client.Of[*corev1.Pod](c).Get(t.Context(), "ns", "a", metav1.GetOptions{}); err != nil || got.Name != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestListReadsEveryPage(t *testing.T) {
	c, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "9"}}
		switch r.URL.Query().Get("continue") {
		case "":
			list.Items, list.Continue = []corev1.Pod{*pod("a"), *pod("b")}, "more"
		case "more":
			list.Items = []corev1.Pod{*pod("c")}
		default:
			t.Errorf("continue %q", r.URL.Query().Get("continue"))
		}
		answer(t, w, http.StatusOK, list)
	})
	items, rv, err := client.Of[*corev1.Pod](c).List(t.Context(), "", metav1.ListOptions{Limit: 2, ResourceVersion: "5"})
	if err != nil || len(items) != 3 || items[2].Name != "c" || items[2].Kind != "Pod" || rv != "9" {
		t.Errorf("%d items at %q, %v", len(items), rv, err)
	}
	all := requests()
	if all[0].path != "/api/v1/pods" || strings.Contains(all[1].query, "resourceVersion") || !strings.Contains(all[1].query, "limit=2") {
		t.Errorf("requests %+v", all)
	}
}

func TestErrorsAreTheAPIs(t *testing.T) {
	for _, test := range []struct {
		err *apierrors.StatusError
		is  func(error) bool
	}{
		{apierrors.NewNotFound(corev1.Resource("pods"), "a"), apierrors.IsNotFound},
		{apierrors.NewConflict(corev1.Resource("pods"), "a", fmt.Errorf("changed")), apierrors.IsConflict},
		{apierrors.NewAlreadyExists(corev1.Resource("pods"), "a"), apierrors.IsAlreadyExists},
		{apierrors.NewForbidden(corev1.Resource("pods"), "a", fmt.Errorf("no")), apierrors.IsForbidden},
		{apierrors.NewResourceExpired("old"), apierrors.IsResourceExpired},
	} {
		c, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
			status := test.err.Status()
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			answer(t, w, int(status.Code), &status)
		})
		_, err := client.Of[*corev1.Pod](c).Get(t.Context(), "ns", "a", metav1.GetOptions{})
		if !test.is(err) || err.Error() != test.err.Error() {
			t.Errorf("error %v became %v", test.err, err)
		}
	}
}

func TestWatch(t *testing.T) {
	c, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;stream=watch")
		for i, kind := range []string{"ADDED", "MODIFIED", "BOOKMARK"} {
			data, err := json.Marshal(pod(fmt.Sprint("p", i)))
			if err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, data)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	w, err := client.Of[*corev1.Pod](c).Watch(t.Context(), "ns", metav1.ListOptions{ResourceVersion: "3", AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []watch.EventType{watch.Added, watch.Modified, watch.Bookmark} {
		select {
		case e := <-w.ResultChan():
			if p, ok := e.Object.(*corev1.Pod); e.Type != want || !ok || p.Name != fmt.Sprint("p", i) {
				t.Errorf("event %d: %v", i, e)
			}
		case <-time.After(time.Minute):
			t.Fatal("no event")
		}
	}
	w.Stop()
	for range w.ResultChan() { // It is closed when the watch has ended.
	}
	if got := requests()[0]; !strings.Contains(got.query, "watch=true") || !strings.Contains(got.query, "resourceVersion=3") {
		t.Errorf("asked %q", got.query)
	}
}

func TestStream(t *testing.T) {
	c, requests := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "line\n") })
	stream, err := client.Of[*corev1.Pod](c).Stream(t.Context(), "ns", "a", "log", &corev1.PodLogOptions{Container: "c", Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(stream)
	if err != nil || string(data) != "line\n" {
		t.Errorf("%q, %v", data, err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	if got := requests()[0]; got.path != "/api/v1/namespaces/ns/pods/a/log" || got.query != "container=c&follow=true" {
		t.Errorf("asked %s?%s", got.path, got.query)
	}
}

func TestDocument(t *testing.T) {
	c, all := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/large.example.com/v1" {
			_, _ = io.CopyN(w, endless{}, 33<<20)
			return
		}
		if r.URL.Path != "/openapi/v3/apis/apps/v1" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"openapi":"3.0.0"}`)
	})
	got, err := c.Document(t.Context(), "/openapi/v3/apis/apps/v1")
	if err != nil || string(got) != `{"openapi":"3.0.0"}` {
		t.Errorf("got %s, %v", got, err)
	}
	if sent := all()[0]; sent.method != http.MethodGet || sent.accept != runtime.ContentTypeJSON {
		t.Errorf("sent %+v", sent)
	}
	if _, err := c.Document(t.Context(), "/openapi/v3/api/v2"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want a 404", err)
	}
	if got, err := c.Document(t.Context(), "/apis/large.example.com/v1"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %d bytes, %v, of a document without end", len(got), err)
	}
}

// endless reads spaces.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestCallsEndWithTheirContext(t *testing.T) {
	c, _ := server(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.Of[*corev1.Pod](c).Get(ctx, "ns", "a", metav1.GetOptions{}); err == nil {
		t.Error("no error")
	}
}

func TestWrongCalls(t *testing.T) {
	if _, err := client.New(nil, scheme.New()); err == nil {
		t.Error("no configuration, no error")
	}
	if _, err := client.New(&rest.Config{}, scheme.New()); err == nil {
		t.Error("no address, no error")
	}
	c, err := client.New(&rest.Config{Host: "http://127.0.0.1:1"}, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	err = c.Do(t.Context(), client.Call{Verb: "frobnicate", Kind: scheme.For[*corev1.Pod](c.Table())}, nil)
	if err == nil || !strings.Contains(err.Error(), `"frobnicate" is not a verb`) {
		t.Errorf("an unknown verb: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a type that is not served: no panic")
		}
	}()
	client.Of[*corev1.RangeAllocation](c) // Kubernetes stores it, but serves it nowhere.
}

// TestRevisionOfAWrite checks that a write reports the revision at which it took effect, even if
// the response is a status.
func TestRevisionOfAWrite(t *testing.T) {
	c, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/gone"):
			answer(t, w, http.StatusOK, &metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
				ListMeta: metav1.ListMeta{ResourceVersion: "12"},
			})
		case strings.HasSuffix(r.URL.Path, "/binding"):
			answer(t, w, http.StatusCreated, &metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
				ListMeta: metav1.ListMeta{ResourceVersion: "13"},
			})
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods"):
			answer(t, w, http.StatusOK, &corev1.PodList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "14"}, Items: []corev1.Pod{*pod("a")},
			})
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/failed"):
			answer(t, w, http.StatusOK, &metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
				ListMeta: metav1.ListMeta{ResourceVersion: "15"},
			})
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/silent"):
			answer(t, w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/refused"):
			status := apierrors.NewForbidden(corev1.Resource("pods"), "refused", nil).Status()
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			answer(t, w, http.StatusForbidden, &status)
		default:
			answer(t, w, http.StatusOK, pod("a"))
		}
	})
	kind := client.Of[*corev1.Pod](c).Kind()
	for _, test := range []struct {
		verb, name string
		into       runtime.Object
		want       int64
		fails      bool
	}{
		{"create", "", &corev1.Pod{}, 7, false}, {"create", "", nil, 7, false}, {"delete", "ends", nil, 7, false},
		{"delete", "gone", nil, 12, false}, {"delete", "silent", nil, 0, false}, {"delete", "refused", nil, 0, true},
		{"create", "bound", nil, 13, false}, {"deletecollection", "", nil, 14, false}, {"delete", "failed", nil, 0, true},
	} {
		revision := int64(99)
		call := client.Call{Verb: test.verb, Kind: kind, Namespace: "ns", Name: test.name, Revision: &revision}
		if test.verb == "create" {
			call.Body = pod("a")
		}
		if test.name == "bound" {
			call.Subresource, call.Body = "binding", &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}
		}
		if err := c.Do(t.Context(), call, test.into); (err != nil) != test.fails || test.fails && !apierrors.IsForbidden(err) {
			t.Errorf("%s %s: %v", test.verb, test.name, err)
		}
		if revision != test.want {
			t.Errorf("%s %s: revision %d, want %d", test.verb, test.name, revision, test.want)
		}
	}
}

func TestAs(t *testing.T) {
	config := &rest.Config{Host: "h"}
	if got := client.As(config, "kubelet").UserAgent; !strings.HasPrefix(got, "kubelet/") || config.UserAgent != "" {
		t.Errorf("got user agent %q; the original is %q", got, config.UserAgent)
	}
	config.UserAgent = "mine"
	if got := client.As(config, "kubelet").UserAgent; got != "mine" {
		t.Errorf("a set user agent was replaced by %q", got)
	}
}
