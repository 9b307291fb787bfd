package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// label returns a patch that sets a label of an object that has labels.
func label(name, value string) answer {
	return patchWith(fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, name, value))
}

func labelledPod() *corev1.Pod {
	return admissiontest.Pod(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
}

// TestPatches applies what webhooks answer to a pod.
func TestPatches(t *testing.T) {
	bomb := []string{`{"op":"add","path":"/metadata/labels/a","value":"` + strings.Repeat("x", 1<<20) + `"}`}
	for i := range 30 {
		bomb = append(bomb, fmt.Sprintf(`{"op":"copy","from":"/metadata/labels","path":"/metadata/annotations%d"}`, i))
	}
	many := slices.Repeat([]string{`{"op":"test","path":"/metadata/name","value":"p"}`}, 10001)
	for _, tc := range []struct {
		name   string
		answer answer
		verb   admission.Verb
		want   string // in the pod's JSON
		fault  string
	}{
		{"an addition", label("x", "y"), "", `"labels":{"app":"web","x":"y"}`, ""},
		{"nothing", patchWith(`[]`), "", `"labels":{"app":"web"}`, ""},
		{"what is there", patchWith(`[{"op":"test","path":"/metadata/labels/app","value":"web"}]`), "", `"labels":{"app":"web"}`, ""},
		{"a removal", patchWith(`[{"op":"remove","path":"/metadata/labels"}]`), "", `"metadata":{"name":"p","namespace":"ns"}`, ""},
		{"defaults follow", patchWith(`[{"op":"add","path":"/spec/initContainers","value":[{"name":"i","image":"i:latest"}]}]`), "", `"imagePullPolicy":"Always"`, ""},
		{"unknown fields vanish", patchWith(`[{"op":"add","path":"/spec/none","value":1}]`), "", `"labels":{"app":"web"}`, ""},
		{"a failing test", patchWith(`[{"op":"test","path":"/metadata/labels/app","value":"db"}]`), "", "", "Internal error occurred: testing value /metadata/labels/app failed"},
		{"a wrong path", patchWith(`[{"op":"replace","path":"/none/a","value":"db"}]`), "", "", "Internal error occurred: replace operation does not apply"},
		{"a wrong type", patchWith(`[{"op":"replace","path":"/metadata/labels","value":"db"}]`), "", "", "Internal error occurred: json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels"},
		{"another kind", patchWith(`[{"op":"replace","path":"/kind","value":"Node"}]`), "", "", "Internal error occurred: the patched object is a /v1, Kind=Node, not a /v1, Kind=Pod"},
		{"an unknown kind", patchWith(`[{"op":"replace","path":"/kind","value":"None"}]`), "", "", `Internal error occurred: no kind "None" is registered`},
		{"no object any more", patchWith(`[{"op":"replace","path":"","value":1}]`), "", "", "Internal error occurred: "},
		{"no patch", patchWith(`{}`), "", "", failed + "received undecodable patch in webhook response: json: cannot unmarshal object"},
		{"no type", with(func(r *admissionv1.AdmissionResponse) { r.Patch = []byte("[]") }), "", "", failed + "received invalid webhook response: webhook returned response.patch but not response.patchType"},
		{"an empty type", with(func(r *admissionv1.AdmissionResponse) {
			r.Patch, r.PatchType = []byte("[]"), new(admissionv1.PatchType(""))
		}), "", "",
			failed + `received invalid webhook response: webhook returned invalid response.patchType of ""`},
		{"a type without a patch", with(func(r *admissionv1.AdmissionResponse) { r.PatchType = new(admissionv1.PatchTypeJSONPatch) }), "", "",
			failed + "received invalid webhook response: webhook returned response.patchType but not response.patch"},
		{"another type", with(func(r *admissionv1.AdmissionResponse) {
			r.Patch, r.PatchType = []byte(`[{"op":"remove","path":"/metadata"}]`), new(admissionv1.PatchType("MergePatch"))
		}), "", "", failed + `unsupported patch type "MergePatch"`},
		{"of a deletion", patchWith(`[{"op":"remove","path":"/metadata"}]`), admission.Delete, "", `Internal error occurred: admission webhook "x" attempted to modify the object, which is not supported for this operation`},
		{"a bomb", patchWith("[" + strings.Join(bomb, ",") + "]"), "", "", "Internal error occurred: Unable to complete the copy, the accumulated size increase of copy is"},
		{"too many operations", patchWith("[" + strings.Join(many, ",") + "]"), "", "", failed + "received a patch with 10001 operations, allowed are 10000"},
		{"a large object", patchWith(`[{"op":"add","path":"/metadata/labels/a","value":"` + strings.Repeat("x", 4<<20) + `"}]`), "", "", `Internal error occurred: admission webhook "x" made an object of 4`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, true)
			w.answer("/x", tc.answer)
			w.configure("c", w.everything("x"))
			pod := labelledPod()
			req := &admission.Request{Verb: tc.verb, Object: pod}
			if tc.verb == admission.Delete {
				req.Object, req.Old = nil, pod
			}
			_, err := w.admit(req)
			if (err == nil) != (tc.fault == "") || err != nil && (!apierrors.IsInternalError(err) || !strings.HasPrefix(err.Error(), tc.fault)) {
				t.Fatalf("got %v, want %s", err, tc.fault)
			}
			text, _ := json.Marshal(pod)
			if err != nil && cmp.Diff(labelledPod(), pod) != "" {
				t.Errorf("a failed patch left %s", text)
			}
			if !strings.Contains(string(text), tc.want) {
				t.Errorf("got %s, want %s", text, tc.want)
			}
		})
	}
	w := newWorld(t, false)
	w.answer("/x", label("x", "y"))
	w.answer("/y", with(func(r *admissionv1.AdmissionResponse) { r.PatchType = new(admissionv1.PatchTypeJSONPatch) }))
	for _, name := range []string{"x", "y"} {
		w.configure("c", w.everything(name))
		_, err := w.admit(&admission.Request{Object: labelledPod()})
		if err == nil || !strings.Contains(err.Error(), "validating webhook may not return response.patch") {
			t.Errorf("validating: got %v", err)
		}
	}
}

// TestOrder checks that webhooks run by the names of their configurations, and each sees what those
// before it have changed.
func TestOrder(t *testing.T) {
	w := newWorld(t, true)
	w.answer("/1", label("one", "1"))
	w.answer("/2", label("two", "2"))
	w.configure("b", w.everything("3"), w.everything("4", func(h *hook) { h.ObjectSelector = labelled("two", "2") }), w.everything("5", func(h *hook) { h.ObjectSelector = labelled("two", "3") }))
	w.configure("a", w.everything("1"), w.everything("2"))
	pod := labelledPod()
	if _, err := w.admit(&admission.Request{Object: pod}); err != nil {
		t.Fatal(err)
	}
	if calls := w.calls(); !slices.Equal(calls, []string{"/1", "/2", "/3", "/4"}) {
		t.Errorf("got %q", calls)
	}
	for path, want := range map[string]string{"/1": `"labels":{"app":"web"}`, "/2": `"labels":{"app":"web","one":"1"}`, "/3": `"labels":{"app":"web","one":"1","two":"2"}`} {
		if got := string(w.question(path).Object.Raw); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", path, got)
		}
	}
	if len(pod.Labels) != 3 {
		t.Errorf("got %v", pod.Labels)
	}
	w.configure("b")
	w.configure("a", w.everything("5"))
	if _, err := w.admit(&admission.Request{Object: pod}); err != nil || !slices.Equal(w.calls(), []string{"/5"}) {
		t.Errorf("after a change: got %v", err)
	}
}

// TestReinvocation checks which webhooks are asked again after others changed the object.
func TestReinvocation(t *testing.T) {
	again := func(h *hook) { h.reinvocation = registrationv1.IfNeededReinvocationPolicy }
	for _, tc := range []struct {
		name    string
		a, b, c []func(*hook)
		answers map[string]answer
		plugin  func(*corev1.Pod) // another plugin, after the webhooks
		want    []string
	}{
		{"never", nil, nil, nil, map[string]answer{"/b": label("b", "1")}, nil, []string{"/a", "/b", "/c"}},
		{"nothing changed", []func(*hook){again}, []func(*hook){again}, []func(*hook){again}, nil, nil, []string{"/a", "/b", "/c"}},
		{"those before a change", []func(*hook){again}, []func(*hook){again}, []func(*hook){again}, map[string]answer{"/b": label("b", "1")}, nil, []string{"/a", "/b", "/c", "/a"}},
		{"only once", []func(*hook){again}, []func(*hook){again}, []func(*hook){again}, map[string]answer{
			"/a": with(func(r *admissionv1.AdmissionResponse) {
				r.Patch, r.PatchType = fmt.Appendf(nil, `[{"op":"add","path":"/metadata/labels/a","value":"%s"}]`, r.UID), new(admissionv1.PatchTypeJSONPatch)
			}), "/c": label("c", "1"),
		}, nil, []string{"/a", "/b", "/c", "/a", "/b", "/c"}},
		{"never for the first time", []func(*hook){again}, []func(*hook){again, func(h *hook) { h.ObjectSelector = labelled("c", "1") }}, nil, map[string]answer{"/c": label("c", "1")}, nil, []string{"/a", "/c", "/a"}},
		{"a change by another plugin", []func(*hook){again}, nil, nil, map[string]answer{"/a": label("a", "1")}, func(p *corev1.Pod) { p.Labels["z"] = "1" }, []string{"/a", "/b", "/c", "/a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, true)
			for path, answer := range tc.answers {
				w.answer(path, answer)
			}
			w.configure("c", w.everything("a", tc.a...), w.everything("b", tc.b...), w.everything("c", tc.c...))
			other := admission.Plugin{Mutate: func(_ context.Context, req *admission.Request) error {
				if tc.plugin != nil {
					tc.plugin(req.Object.(*corev1.Pod))
				}
				return nil
			}}
			if _, err := w.Admit(t, &admission.Request{Object: labelledPod()}, w.plugin, other); err != nil {
				t.Fatal(err)
			}
			if calls := w.calls(); !slices.Equal(calls, tc.want) {
				t.Errorf("got %q, want %q", calls, tc.want)
			}
		})
	}
}

// TestCustomKind patches an object without a Go type.
func TestCustomKind(t *testing.T) {
	w := newWorld(t, true)
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}
	if err := w.catalog.Install(&kinds.Definition{Kind: &scheme.Kind{
		GroupVersionKind: gvk, Resource: "boats", Singular: "boat", Namespaced: true, Custom: true, StoragePrefix: "example.com/boats",
	}}); err != nil {
		t.Fatal(err)
	}
	w.answer("/x", patchWith(`[{"op":"add","path":"/spec/free","value":{"a":[1,2.5,"x"]}}]`))
	w.configure("c", w.everything("x", conditions("object.spec.size == 3")))
	boat := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "b"}, "spec": map[string]any{"size": int64(3)}}}
	boat.SetGroupVersionKind(gvk)
	if _, err := w.admit(&admission.Request{Object: boat}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"size": int64(3), "free": map[string]any{"a": []any{int64(1), 2.5, "x"}}}
	if diff := cmp.Diff(want, boat.Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if q := w.question("/x"); q.Resource.Resource != "boats" || q.UID == types.UID("") {
		t.Errorf("got %+v", q)
	}
}
