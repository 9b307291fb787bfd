package clientgo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

func newAdapter(t *testing.T, host string) *Adapter {
	t.Helper()
	a, err := New(Config{REST: &rest.Config{Host: host}, Source: &driven{}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// asked returns a GET of a path with a query.
func asked(uri string) *http.Request {
	at, err := url.Parse(uri)
	if err != nil {
		panic(err)
	}
	return &http.Request{Method: http.MethodGet, URL: at, Header: http.Header{"Accept": {"application/json"}}}
}

// TestParse parses the requests that a view answers.
func TestParse(t *testing.T) {
	const list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	for _, c := range []struct {
		uri, accept, want string
	}{
		{"/api/v1/pods", "", "list pods consistent"},
		{"/api/v1/pods/", "", "list pods consistent"},
		{"/api/v1/namespaces/a/pods?resourceVersion=0", "", "list pods in a"},
		{"/api/v1/namespaces/a/pods?resourceVersion=0&limit=5", "", "list pods in a"}, // as the apiserver, which ignores the limit
		{"/api/v1/namespaces/a/pods?limit=5", "", "list pods in a consistent limit=5"},
		{"/api/v1/pods?resourceVersion=7&resourceVersionMatch=NotOlderThan", "", "list pods @7"},
		{"/api/v1/pods?watch=true&resourceVersion=7", "", "watch pods @7"},
		{"/api/v1/pods?watch=1&resourceVersion=7&timeoutSeconds=60&allowWatchBookmarks=true", "", "watch pods @7 bookmarks 1m0s"},
		{"/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "", "watch pods consistent initial"},
		{"/apis/apps/v1/deployments?watch=false&resourceVersion=3", "", "list deployments @3"},
		{"/api/v1/nodes?timeout=5s", "", "list nodes consistent"},
		{"/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", "", "list pods consistent of n1"},
		{"/api/v1/pods?fieldSelector=spec.nodeName%3D", "", "list pods consistent of " + scheme.Unscoped},
		{"/api/v1/namespaces/a/pods?fieldSelector=spec.nodeName%3Dn1", "", "list pods in a consistent"},
		{"/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1", "", "list pods consistent"},
		{"/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx", "", "list pods in a consistent named x"},
		{"/api/v1/pods?fieldSelector=metadata.name%3Dx", "", "list pods consistent"},
		{"/api/v1/pods?fieldSelector=%3D", "", "list pods consistent"}, // as the apiserver, for which it selects everything
		{"/api/v1/nodes?fieldSelector=metadata.name%3Dn1", "", "list nodes consistent named n1"},
		{"/api/v1/pods", list, "list pods consistent partial"},
		{"/api/v1/pods?watch=1", strings.Replace(list, "List", "", 1), "watch pods consistent partial"},
		{"/api/v1/pods", "application/vnd.kubernetes.protobuf,application/json", "list pods consistent"},
		// These go to the apiserver.
		{"/api/v1/pods?watch=1", list, ""},
		{"/api/v1/pods", strings.Replace(list, "v1", "v1beta1", 1), ""},
		{"/api/v1/pods", "text/html", ""},
		{"/api/v1/pods?resourceVersion=-1", "", ""},
		{"/api/v1/pods?limit=-1", "", ""},
		{"/api/v1/pods?timeoutSeconds=-1", "", ""},
		{"/api/v1/pods?watch=1&timeoutSeconds=9223372036854775807", "", ""},
		{"/api/v1/pods?watch=1&resourceVersionMatch=NotOlderThan", "", ""},
		{"/api/v1/pods?watch=1&resourceVersionMatch=Exact", "", ""},
		{"/api/v1/pods?sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "", ""},
		{"/api/v1/pods?fieldSelector=spec.nodeName", "", ""},
		{"/apis//v1/pods", "", ""},
		{"/api/v1/namespaces//pods", "", ""},
		{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", ""},
	} {
		req := asked(c.uri)
		if c.accept != "" {
			req.Header.Set("Accept", c.accept)
		}
		if got := describe(newAdapter(t, "http://x").parse(req, nowhere{})); got != c.want {
			t.Errorf("%s as %q is %q, want %q", c.uri, c.accept, got, c.want)
		}
	}
}

// describe formats a parsed request; empty for one that goes to the apiserver.
func describe(r *request) string {
	if r == nil {
		return ""
	}
	text := r.verb() + " " + r.kind.Resource
	add := func(when bool, format string, args ...any) {
		if when {
			text += fmt.Sprintf(" "+format, args...)
		}
	}
	add(r.namespace != "", "in %s", r.namespace)
	add(r.version > 0, "@%d", r.version)
	add(r.consistent, "consistent")
	add(r.limit > 0, "limit=%d", r.limit)
	add(r.initial, "initial")
	add(r.bookmarks, "bookmarks")
	add(r.timeout > 0, "%v", r.timeout)
	add(r.selected.view.Scope != "", "of %s", r.selected.view.Scope)
	add(r.selected.view.Name != "", "named %s", r.selected.view.Name)
	add(r.format.partial, "partial")
	return text
}

// TestParseOthers: what is no plain read, or lies beside the server's path, goes to the apiserver.
func TestParseOthers(t *testing.T) {
	a := newAdapter(t, "http://x/clusters/one/")
	if got := describe(a.parse(asked("/clusters/one/api/v1/pods"), nowhere{})); got != "list pods consistent" {
		t.Errorf("below the server's path it is %q", got)
	}
	for name, change := range map[string]func(*http.Request){
		"another path":  func(r *http.Request) { r.URL.Path = "/api/v1/pods" },
		"a create":      func(r *http.Request) { r.Method = http.MethodPost },
		"a WebSocket":   func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"a part":        func(r *http.Request) { r.Header.Set("Range", "bytes=0-1") },
		"two accepts":   func(r *http.Request) { r.Header["Accept"] = []string{"text/html", "application/json"} },
		"two versions":  func(r *http.Request) { r.URL.RawQuery = "resourceVersion=1&resourceVersion=2" },
		"an empty flag": func(r *http.Request) { r.URL.RawQuery = "watch" },
	} {
		req := asked("/clusters/one/api/v1/pods")
		change(req)
		if got := describe(a.parse(req, nowhere{})); got != "" {
			t.Errorf("%s is answered as %q", name, got)
		}
	}
}

// TestSelection selects objects by the fields of their kind, and the kinds have no others.
func TestSelection(t *testing.T) {
	table := scheme.New()
	about := metav1.ObjectMeta{Namespace: "a", Name: "x", Labels: map[string]string{"app": "web"}}
	pod := &corev1.Pod{ObjectMeta: about, Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}
	for _, c := range []struct {
		obj              informer.Object
		byLabel, byField string
		known, matches   bool
	}{
		{pod, "", "", true, true},
		{pod, "app=web", "spec.nodeName=n1,metadata.namespace=a", true, true},
		{pod, "app=db", "", true, false},
		{pod, "", "spec.nodeName!=n1", true, false},
		{pod, "", "status.podIP=10.0.0.1,spec.hostNetwork=false", true, true},
		{pod, "", "spec.unschedulable=false", false, false},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Unschedulable: true}}, "", "spec.unschedulable=true", true, true},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "", "metadata.namespace=", false, false},
		{&corev1.Secret{ObjectMeta: about, Type: "t"}, "", "type=t", true, true},
		{&corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}, "", "status.phase=Active", true, false},
		{&corev1.Event{ObjectMeta: about, InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: "u"}}, "", "involvedObject.uid=u,reason=", true, true},
		{&corev1.ConfigMap{ObjectMeta: about}, "", "metadata.name=x", true, true},
		{&corev1.ConfigMap{ObjectMeta: about}, "", "data.x=y", false, false},
	} {
		kind := table.KindOf(c.obj)
		s, known := selectionOf(kind, "", c.byLabel, c.byField)
		if known != c.known || known && s.matches(c.obj) != c.matches {
			t.Errorf("%s by %q and %q: known %t, matches %t", kind.Kind, c.byLabel, c.byField, known, known && s.matches(c.obj))
		}
		if known && s.matches(nil) {
			t.Error("nothing is selected")
		}
		// The fields are the same for each object of a kind: an absent one would be taken for unknown.
		if got, want := len(fieldsOf(kind, c.obj)), len(fieldsOf(kind, kind.New())); got != want {
			t.Errorf("%s has %d fields, and %d when it is empty: %v", kind.Kind, got, want, fieldsOf(kind, c.obj))
		}
	}
}

// reviewer answers access reviews with what a test wants, and counts them.
type reviewer struct {
	answer string
	code   int
	err    error
	asked  []authorizationv1.SelfSubjectAccessReview
	header http.Header
}

func (r *reviewer) RoundTrip(req *http.Request) (*http.Response, error) {
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		return nil, err
	}
	r.asked, r.header = append(r.asked, review), req.Header
	if r.err != nil {
		return nil, r.err
	}
	w := httptest.NewRecorder()
	w.WriteHeader(r.code)
	_, _ = io.Copy(w, bytes.NewReader([]byte(r.answer)))
	return w.Result(), nil
}

// TestMay: only a clear yes counts, and it counts for a while, for one user and one selection.
func TestMay(t *testing.T) {
	const yes, no = `{"status":{"allowed":true}}`, `{"status":{"allowed":false}}`
	for _, c := range []struct {
		name string
		next reviewer
		want bool
	}{
		{"allowed", reviewer{code: 201, answer: yes}, true},
		{"denied", reviewer{code: 201, answer: no}, false},
		{"another code", reviewer{code: 200, answer: yes}, false},
		{"no answer", reviewer{err: errors.New("away")}, false},
		{"no JSON", reviewer{code: 201, answer: "allowed"}, false},
		{"half an answer", reviewer{code: 201, answer: `{"status":{"allowed":true`}, false},
		{"an endless answer", reviewer{code: 201, answer: strings.Repeat(" ", maxReview) + yes}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, req := newAccess("", &c.next, time.Second), asked("/api/v1/namespaces/a/pods?labelSelector=app&fieldSelector=metadata.name%3Dx").WithContext(t.Context())
			if got := a.may(req, newAdapter(t, "http://x").parse(req, nowhere{})); got != c.want {
				t.Errorf("got %t", got)
			}
			about := c.next.asked[0].Spec.ResourceAttributes
			if about.Namespace != "a" || about.Verb != "list" || about.Resource != "pods" || about.Name != "x" || about.LabelSelector.RawSelector != "app" {
				t.Errorf("it asked about %+v", about)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		next := &reviewer{code: 201, answer: yes}
		a, adapter := newAccess("", next, time.Second), newAdapter(t, "http://x")
		ask := func(uri, user string, want int) {
			t.Helper()
			req := asked(uri).WithContext(t.Context())
			req.Header.Set("Authorization", user)
			req.Header.Set("X-Other", "private")
			if !a.may(req, adapter.parse(req, nowhere{})) || len(next.asked) != want {
				t.Errorf("%s as %s: %d reviews, want %d", uri, user, len(next.asked), want)
			}
			if next.header.Get("X-Other") != "" || next.header.Get("Authorization") == "" {
				t.Errorf("the review has the header %v", next.header)
			}
		}
		ask("/api/v1/pods", "jane", 1)
		ask("/api/v1/pods?resourceVersion=0", "jane", 1)
		ask("/api/v1/pods", "joe", 2)
		ask("/api/v1/pods?watch=1", "jane", 3)
		ask("/api/v1/namespaces/a/pods", "jane", 4)
		ask("/api/v1/pods?labelSelector=a", "jane", 5)
		<-time.After(allowedFor + time.Second)
		ask("/api/v1/pods", "jane", 6)
		// A no is not remembered as a yes, nor the yes before it.
		<-time.After(allowedFor + time.Second)
		next.answer = no
		if req := asked("/api/v1/pods").WithContext(t.Context()); a.may(req, adapter.parse(req, nowhere{})) {
			t.Error("a user without permission may read")
		}
	})
}
