package conversion_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func set(value any, path ...string) func(int, map[string]any) {
	return func(_ int, object map[string]any) { _ = unstructured.SetNestedField(object, value, path...) }
}

// TestByName converts without a webhook.
func TestByName(t *testing.T) {
	w := newWorld(t, patience, http.NotFoundHandler())
	for name, strategy := range map[string]*apiextensionsv1.CustomResourceConversion{
		"none": {Strategy: apiextensionsv1.NoneConverter}, "never stored": nil,
	} {
		w.definition.Spec.Conversion = strategy
		was := gadget(v1, "a")
		got, err := w.convert(was, gadget(v2, "b"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []*unstructured.Unstructured{gadget(v2, "a"), gadget(v2, "b")}
		got[0].SetLabels(map[string]string{"l": "1"}) // This must not reach the original.
		if diff := cmp.Diff(want, got); diff != "" || cmp.Diff(gadget(v1, "a"), was) != "" {
			t.Errorf("%s: the original is %v, -want +got:\n%s", name, was, diff)
		}
	}
	by, err := w.converters.Of(w.definition)
	if err != nil {
		t.Fatal(err)
	}
	v3 := v1
	v3.Version = "v3"
	for want, convert := range map[string]func() error{
		"request to convert CR to an invalid group/version: example.org/v3": func() error {
			_, err := by.Convert([]*unstructured.Unstructured{gadget(v1, "a")}, v3)
			return err
		},
		"request to convert CR from an invalid group/version: example.org/v3": func() error {
			_, err := by.Convert([]*unstructured.Unstructured{gadget(v3, "a")}, v1)
			return err
		},
		"request to convert CR list failed, list index 1 has invalid group/version: example.org/v3": func() error {
			_, err := by.Convert([]*unstructured.Unstructured{gadget(v1, "a"), gadget(v3, "b")}, v1)
			return err
		},
	} {
		if err := convert(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestByWebhook checks what a webhook is asked, and what it can change of an object.
func TestByWebhook(t *testing.T) {
	var asked atomic.Int32
	w := newWorld(t, patience, answer(func(question map[string]any) any {
		asked.Add(1)
		return honest(func(_ int, object map[string]any) {
			object["spec"] = map[string]any{"size": "1"}
			object["metadata"].(map[string]any)["labels"] = map[string]any{"l": "2", "m": "3"}
			object["metadata"].(map[string]any)["annotations"] = map[string]any{"a": "1"}
			object["metadata"].(map[string]any)["finalizers"] = []any{}
			object["metadata"].(map[string]any)["resourceVersion"] = "8"
			object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"name": "me"}}
		})(question)
	}))
	for _, review := range []string{"v1", "v1beta1"} {
		w.definition.Spec.Conversion.Webhook.ConversionReviewVersions = []string{"v7", review}
		asked.Store(0)
		got, err := w.convert(gadget(v1, "a"), gadget(v2, "b"), gadget(v1, "c"))
		if err != nil || asked.Load() != 1 {
			t.Fatalf("asked %d times: %v", asked.Load(), err)
		}
		want := []*unstructured.Unstructured{gadget(v2, "a"), gadget(v2, "b"), gadget(v2, "c")}
		for _, at := range []int{0, 2} {
			want[at].Object["spec"] = map[string]any{"size": "1"}
			want[at].SetLabels(map[string]string{"l": "2", "m": "3"})
			want[at].SetAnnotations(map[string]string{"a": "1"})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", review, diff)
		}
	}
	if _, err := w.convert(gadget(v2, "a")); err != nil || asked.Load() != 1 {
		t.Errorf("an object that has the version: asked %d times: %v", asked.Load(), err)
	}
	w.definition.Spec.Conversion.Webhook.ConversionReviewVersions = []string{"v7"}
	if _, err := w.convert(gadget(v1, "a")); err == nil || !strings.Contains(err.Error(), "no supported conversion review versions") {
		t.Errorf("got %v", err)
	}
}

// TestLabelsThatAreKept checks that labels that would not be valid now stay if the webhook leaves them, and
// that it can remove them.
func TestLabelsThatAreKept(t *testing.T) {
	var removes atomic.Bool
	w := newWorld(t, patience, honest(func(_ int, object map[string]any) {
		if removes.Load() {
			delete(object["metadata"].(map[string]any), "labels")
		}
	}))
	was := gadget(v1, "a")
	was.SetLabels(map[string]string{"not valid": "x"})
	for _, want := range []map[string]string{{"not valid": "x"}, nil} {
		got, err := w.convert(was)
		if err != nil || cmp.Diff(want, got[0].GetLabels()) != "" {
			t.Errorf("got %v: %v, want %v", got, err, want)
		}
		removes.Store(true)
	}
}

// TestBadAnswers has a webhook answer what is none. Each is an error with Kubernetes' text.
func TestBadAnswers(t *testing.T) {
	response := func(change func(question, document, response map[string]any)) answer {
		return func(question map[string]any) any {
			document := honest(func(int, map[string]any) {})(question).(map[string]any)
			change(question, document, document["response"].(map[string]any))
			return document
		}
	}
	for name, c := range map[string]struct {
		answer answer
		want   string
		why    string
	}{
		"garbage":     {func(map[string]any) any { return "garbage" }, "conversion webhook for example.org/v1, Kind=Gadget failed: ", "call"},
		"nothing":     {func(map[string]any) any { return "" }, "conversion webhook for example.org/v1, Kind=Gadget failed: ", "call"},
		"null":        {func(map[string]any) any { return "null" }, "conversion webhook for example.org/v1, Kind=Gadget failed: ", "malformed_response"},
		"deep":        {func(map[string]any) any { return strings.Repeat(`{"a":`, 100_000) }, "failed: ", "call"},
		"other kind":  {response(func(_, d, _ map[string]any) { d["kind"] = "Gadget" }), "failed: ", "call"},
		"other uid":   {response(func(_, _, r map[string]any) { r["uid"] = "x" }), `expected response.uid=`, "malformed_response"},
		"no response": {response(func(_, d, _ map[string]any) { delete(d, "response") }), "failed: no response provided", "malformed_response"},
		"refused": {response(func(_, _, r map[string]any) { r["result"] = map[string]any{"status": "Failure", "message": "no way"} }),
			"conversion webhook for example.org/v1, Kind=Gadget failed: no way", "malformed_response"},
		"no result":   {response(func(_, _, r map[string]any) { delete(r, "result") }), "failed: response.result.status was '', not 'Success'", "malformed_response"},
		"too few":     {response(func(_, _, r map[string]any) { r["convertedObjects"] = []any{} }), "returned 0 objects, expected 1", "partial_response"},
		"too many":    {response(func(_, _, r map[string]any) { r["convertedObjects"] = slices.Repeat(r["convertedObjects"].([]any), 2) }), "returned 2 objects, expected 1", "partial_response"},
		"an integer":  {response(func(_, _, r map[string]any) { r["convertedObjects"] = []any{7} }), "invalid converted object at index 0: ", "invalid_converted_object"},
		"null object": {response(func(_, _, r map[string]any) { r["convertedObjects"] = []any{nil} }), "invalid converted object at index 0: ", "invalid_converted_object"},
		"version":     {honest(set("example.org/v1", "apiVersion")), "invalid groupVersion (expected example.org/v2, received example.org/v1)", "invalid_converted_object"},
		"kind":        {honest(set("Gizmo", "kind")), "invalid kind (expected Gadget, received Gizmo)", "invalid_converted_object"},
		"name":        {honest(set("b", "metadata", "name")), "must have the same name: a != b", "invalid_converted_object"},
		"namespace":   {honest(set("b", "metadata", "namespace")), "must have the same namespace: ns != b", "invalid_converted_object"},
		"object uid":  {honest(set("b", "metadata", "uid")), "must have the same UID: uid-a != b", "invalid_converted_object"},
		"no metadata": {honest(func(_ int, o map[string]any) { delete(o, "metadata") }), "must have the same name", "invalid_converted_object"},
		"metadata":    {honest(func(_ int, o map[string]any) { o["metadata"] = "x" }), "must have the same name", "invalid_converted_object"},
		"labels":      {honest(set("x", "metadata", "labels")), "invalid metadata in object at index 0: invalid metadata.labels of type string in converted object", "invalid_converted_object"},
		"a label":     {honest(set(map[string]any{"a": true}, "metadata", "labels")), "metadata.labels[a] must be a string, but is bool in converted object", "invalid_converted_object"},
		"bad label":   {honest(set(map[string]any{"a b": "c"}, "metadata", "labels")), `metadata.labels: Invalid value: "a b": name part must consist of`, "invalid_converted_object"},
		"bad annotation": {honest(set(map[string]any{"a b": "c"}, "metadata", "annotations")),
			`metadata.annotation: Invalid value: "a b": name part must consist of`, "invalid_converted_object"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, patience, c.answer)
			got, err := w.convert(gadget(v1, "a"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v: %v, want %s", got, err, c.want)
			}
			want := "failure conversion_webhook_" + c.why + "_failure"
			if got := w.series("apiserver_conversion_webhook_request_total", "result", "failure_type"); !slices.Equal(got, []string{want}) {
				t.Errorf("metrics have %q, want %q", got, want)
			}
		})
	}
}

// TestBadServers asks servers that are none: each call ends in time, with an error.
func TestBadServers(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "failed: "},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			var body [64 << 10]byte
			for _, err := r.Body.Read(body[:]); err == nil; _, err = r.Body.Read(body[:]) { //nolint:revive // A server sees the client leave once the body is read.
			}
			<-r.Context().Done()
		}, "context deadline exceeded"},
		"drips": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		}, "context deadline exceeded"},
		"fails": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) }, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, time.Second, c.handler)
			if got, err := w.convert(gadget(v1, "a")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v: %v, want %s", got, err, c.want)
			}
		})
	}
}

// TestTargets checks targets that cannot be called.
func TestTargets(t *testing.T) {
	w := newWorld(t, patience, http.NotFoundHandler())
	config := w.definition.Spec.Conversion.Webhook.ClientConfig
	config.CABundle = []byte("x")
	if _, err := w.converters.Of(w.definition); err == nil || !strings.Contains(err.Error(), "unable to load root certificates") {
		t.Errorf("a bad caBundle: got %v", err)
	}
	config.CABundle = []byte(" \n")
	if _, err := w.convert(gadget(v1, "a")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an empty caBundle, where the system's apply: got %v", err)
	}
	config.URL, config.Service = nil, &apiextensionsv1.ServiceReference{Namespace: "ns", Name: "hook"}
	if _, err := w.convert(gadget(v1, "a")); err == nil || !strings.Contains(err.Error(), "no such service") {
		t.Errorf("a Service that is not there: got %v", err)
	}
	w.definition.Spec.Conversion.Webhook = nil
	if _, err := w.converters.Of(w.definition); err == nil || !strings.Contains(err.Error(), "must have either service or URL") {
		t.Errorf("no webhook: got %v", err)
	}
}

// TestKeep checks that a definition that is gone leaves no metrics, and can come back.
func TestKeep(t *testing.T) {
	w := newWorld(t, patience, honest(func(int, map[string]any) {}))
	other := definition("others.example.org", w.server, "/other", "v1", "v2")
	for _, one := range []*apiextensionsv1.CustomResourceDefinition{w.definition, other} {
		by, err := w.converters.Of(one)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := by.Convert([]*unstructured.Unstructured{gadget(v1, "a")}, v2); err != nil {
			t.Fatal(err)
		}
	}
	const durations = "apiserver_crd_conversion_webhook_duration_seconds"
	want := []string{"gadgets.example.org v1 v2 true", "others.example.org v1 v2 true"}
	if got := w.series(durations, "crd_name", "from_version", "to_version", "succeeded"); !slices.Equal(got, want) {
		t.Errorf("metrics have %q, want %q", got, want)
	}
	w.converters.Keep([]*apiextensionsv1.CustomResourceDefinition{other})
	if got := w.series(durations, "crd_name"); !slices.Equal(got, []string{other.Name}) {
		t.Errorf("metrics have %q, want only %s", got, other.Name)
	}
	if _, err := w.convert(gadget(v1, "a")); err != nil {
		t.Error(err)
	}
}

// FuzzAnswer has a webhook answer anything. UID in an answer stands for the right one. What is converted must
// be the object that was asked for.
func FuzzAnswer(f *testing.F) {
	const head = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"UID","result":{"status":"Success"},"convertedObjects":[`
	for _, seed := range []string{
		"", "{", "null", "[]", head + "]}}", head + "null]}}", head + "{}]}}",
		head + `{"apiVersion":"example.org/v2","kind":"Gadget","metadata":{"name":"a","namespace":"ns","uid":"uid-a"}}]}}`,
		head + `{"apiVersion":"example.org/v2","kind":"GadgetList","items":[{"metadata":{"name":"a","namespace":"ns","uid":"uid-a"}}]}]}}`,
		head + `{"apiVersion":"example.org/v2","kind":"Gadget","metadata":{"name":"a","namespace":"ns","uid":"uid-a","labels":{"a":1e400}}}]}}`,
	} {
		f.Add(seed)
	}
	var text atomic.Pointer[string]
	w := newWorld(f, patience, answer(func(question map[string]any) any {
		return strings.ReplaceAll(*text.Load(), "UID", question["request"].(map[string]any)["uid"].(string))
	}))
	by, err := w.converters.Of(w.definition)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, said string) {
		text.Store(&said)
		got, err := by.Convert([]*unstructured.Unstructured{gadget(v1, "a")}, v2)
		if err != nil {
			return
		}
		want := gadget(v2, "a")
		if len(got) != 1 || got[0].GroupVersionKind() != want.GroupVersionKind() || got[0].GetName() != "a" || got[0].GetUID() != want.GetUID() ||
			cmp.Diff(want.GetFinalizers(), got[0].GetFinalizers()) != "" {
			t.Errorf("got %v", got)
		}
	})
}
