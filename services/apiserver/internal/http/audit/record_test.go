package audit

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// recorded returns the only event of a request on the pods of ns, whose record note fills.
func recorded(t *testing.T, text string, note func(*Record)) auditv1.Event {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	a := New(Config{Policy: policy(t, text), File: File{Path: path}, Mode: ModeBlocking, Logger: quiet(), Registerer: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	r := httptest.NewRequest("POST", "/api/v1/namespaces/ns/pods", nil)
	r.Header.Set("User-Agent", strings.Repeat("x", 2000))
	r.Header.Set("X-Forwarded-For", "1.2.3.4")
	record := a.Begin(r, Request{ID: "i", Received: time.Now(), User: &authn.User{Name: "alice"}, Attributes: authz.Attributes{
		Verb: "create", Version: "v1", Resource: "pods", Namespace: "ns",
	}})
	note(From(With(t.Context(), record)))
	record.Complete(false)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var event auditv1.Event
	if err := json.Unmarshal(data, &event); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return event
}

func managed(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: "ns", UID: "u1", ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}
}

// TestObjects: an event holds the request's and the response's objects as its level demands.
func TestObjects(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: managed("p")}
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{{ObjectMeta: managed("p")}}}
	table := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"},
		Rows:     []metav1.TableRow{{Object: runtime.RawExtension{Object: pod}}, {}},
	}
	encoded := table.DeepCopy()
	encoded.Rows[0].Object = runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Egg","metadata":{"name":"e","managedFields":[{"manager":"m"}]}}`)}
	for name, c := range map[string]struct {
		policy           string
		answer           runtime.Object
		request, fields  bool
		responseContains string
	}{
		"metadata only":                  {"rules: [{level: Metadata}]", pod, false, false, ""},
		"request":                        {"rules: [{level: Request}]", pod, true, true, ""},
		"request and response":           {"rules: [{level: RequestResponse}]", pod, true, true, `"kind":"Pod"`},
		"no managed fields in an object": {"rules: [{level: RequestResponse, omitManagedFields: true}]", pod, true, false, `"kind":"Pod"`},
		"no managed fields in a list":    {"omitManagedFields: true\nrules: [{level: RequestResponse}]", list, true, false, `"kind":"PodList"`},
		"no managed fields in a table":   {"omitManagedFields: true\nrules: [{level: RequestResponse}]", table, true, false, `"kind":"Table"`},
		"no managed fields in its bytes": {"omitManagedFields: true\nrules: [{level: RequestResponse}]", encoded, true, false, `"kind":"Egg"`},
	} {
		event := recorded(t, c.policy, func(r *Record) {
			r.Request(pod)
			r.Response(c.answer)
		})
		if (event.RequestObject != nil) != c.request || c.request && strings.Contains(string(event.RequestObject.Raw), "managedFields") != c.fields {
			t.Errorf("%s: the request object is %v", name, event.RequestObject)
		}
		if (event.ResponseObject != nil) != (c.responseContains != "") {
			t.Errorf("%s: the response object is %v", name, event.ResponseObject)
		} else if event.ResponseObject != nil {
			raw := string(event.ResponseObject.Raw)
			if !strings.Contains(raw, c.responseContains) || strings.Contains(raw, "managedFields") != c.fields {
				t.Errorf("%s: the response object is %s", name, raw)
			}
		}
		if ref := event.ObjectRef; ref.Name != "p" || ref.UID != "u1" || ref.ResourceVersion != "7" || ref.Namespace != "ns" || ref.Resource != "pods" {
			t.Errorf("%s: the object reference is %+v", name, ref)
		}
		if len(event.UserAgent) != maxUserAgent+len("...TRUNCATED") || event.SourceIPs[0] != "1.2.3.4" {
			t.Errorf("%s: the user agent is %q, the source IPs are %v", name, event.UserAgent, event.SourceIPs)
		}
	}
	if pod.ManagedFields == nil || list.Items[0].ManagedFields == nil {
		t.Error("the objects themselves were changed")
	}
}

// TestPatches: a JSON patch is recorded as it is, a YAML patch as JSON.
func TestPatches(t *testing.T) {
	for patch, want := range map[string]string{`{"a":1}`: `{"a":1}`, "a: 1\n": `{"a":1}`, "a: [": ""} {
		event := recorded(t, "rules: [{level: Request}]", func(r *Record) { r.Patch([]byte(patch)) })
		got := ""
		if event.RequestObject != nil {
			got = string(event.RequestObject.Raw)
		}
		if got != want {
			t.Errorf("patch %q is recorded as %q, want %q", patch, got, want)
		}
	}
}

// TestAnnotations: the first value of an annotation stays.
func TestAnnotations(t *testing.T) {
	event := recorded(t, "rules: [{level: Metadata}]", func(r *Record) {
		r.Annotate("a", "1")
		r.Annotate("a", "2")
		r.Annotate("b", "3")
	})
	if len(event.Annotations) != 2 || event.Annotations["a"] != "1" || event.Annotations["b"] != "3" {
		t.Errorf("got annotations %v", event.Annotations)
	}
}

// TestNothing: a nil auditor returns a nil record, on which every method does nothing.
func TestNothing(t *testing.T) {
	var a *Auditor
	record := a.Begin(httptest.NewRequest("GET", "/", nil), Request{})
	if record != nil || From(t.Context()) != nil || record.wantsRequest() || record.WantsResponse() {
		t.Error("there is a record without an auditor")
	}
	if err := record.Received(); err != nil {
		t.Error(err)
	}
	record.Request(&corev1.Pod{})
	record.Response(&corev1.Pod{})
	record.Patch(nil)
	record.Annotate("a", "b")
	record.Started(200, true)
	record.Panicked("x")
	record.Impersonated(authn.User{}, "")
	record.Complete(true)
}
