package patch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	jsonType      = "application/json-patch+json"
	mergeType     = "application/merge-patch+json"
	strategicType = "application/strategic-merge-patch+json"
)

func newPatcher(t testing.TB) *patch.Patcher {
	t.Helper()
	p, err := patch.New(scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func current() *appsv1.Deployment {
	large := int64(9007199254740993) // A float64 cannot hold this exactly.
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "ns", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "1", "b": "2"}, Generation: large},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "one", Image: "i1"}, {Name: "two", Image: "i2"}},
		}}},
	}
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return d
}

func TestApply(t *testing.T) {
	cases := []struct {
		name, kind, body, directive string
		want                        func(*appsv1.Deployment)
		warnings                    []string
		code                        int32
		says                        string
	}{
		{name: "merge", kind: mergeType, body: `{"metadata":{"labels":{"a":null,"c":"3"}}}`, want: func(d *appsv1.Deployment) { d.Labels = map[string]string{"b": "2", "c": "3"} }},
		{name: "merge replaces lists", kind: mergeType, body: `{"spec":{"template":{"spec":{"containers":[{"name":"one","image":"new"}]}}}}`, want: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "one", Image: "new"}}
		}},
		{name: "strategic merges lists by key", kind: strategicType + "; charset=utf-8", body: `{"spec":{"template":{"spec":{"containers":[{"name":"two","image":"new"}]}}}}`, want: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[1].Image = "new"
		}},
		{name: "strategic deletes", kind: strategicType, body: `{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"one"}]}}}}`, want: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = d.Spec.Template.Spec.Containers[1:]
		}},
		{name: "json", kind: jsonType, body: `[{"op":"test","path":"/metadata/labels/a","value":"1"},{"op":"remove","path":"/metadata/labels/a"}]`, want: func(d *appsv1.Deployment) { delete(d.Labels, "a") }},
		{name: "json test fails", kind: jsonType, body: `[{"op":"test","path":"/metadata/labels/a","value":"2"}]`, code: 422, says: "the server rejected our request due to an error in our request"},
		{name: "json path", kind: jsonType, body: `[{"op":"remove","path":"/metadata/none"}]`, code: 422, says: "the server rejected our request due to an error in our request"},
		{name: "json is an object", kind: jsonType, body: `{}`, code: 400, says: "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
		{name: "json is an object, ignored", kind: jsonType, body: `{}`, directive: "Ignore", code: 400, says: "json: cannot unmarshal object into Go value of type jsonpatch.Patch"},
		{name: "json is null", kind: jsonType, body: `null`, want: func(*appsv1.Deployment) {}},
		{name: "json operation of a wrong type", kind: jsonType, body: `[{"op":1}]`, code: 400, says: "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"},
		{name: "merge is a list", kind: mergeType, body: `[]`, code: 400, says: "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{name: "merge is a list, ignored", kind: mergeType, body: `[]`, directive: "Ignore", code: 422, says: `patch: Invalid value: "[]"`},
		{name: "merge is null", kind: mergeType, body: `null`, code: 400, says: "Invalid JSON Patch"},
		{name: "merge is null, ignored", kind: mergeType, body: `null`, directive: "Ignore", code: 400, says: "Invalid JSON Patch"},
		{name: "strategic is a list", kind: strategicType, body: `[]`, code: 400, says: "json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{name: "strategic is null", kind: strategicType, body: `null`, want: func(*appsv1.Deployment) {}},
		{name: "strategic is null, strict", kind: strategicType, body: `null`, directive: "Strict", want: func(*appsv1.Deployment) {}},
		{name: "json, malformed", kind: jsonType, body: `{`, code: 400, says: "invalid JSON patch"},
		{name: "merge, malformed", kind: mergeType, body: ``, code: 400, says: "invalid JSON patch"},
		{name: "strategic, malformed", kind: strategicType, body: `{`, code: 400, says: "invalid JSON patch"},
		{name: "a wrong type", kind: mergeType, body: `{"spec":{"replicas":"many"}}`, code: 422, says: `\"replicas\":\"many\"`},
		{name: "a wrong type, strategic", kind: strategicType, body: `{"spec":{"replicas":"many"}}`, code: 422,
			says: `patch: Invalid value: "map[spec:map[replicas:many]]": unrecognized type: int32`},
		{name: "json sets a wrong type", kind: jsonType, body: `[{"op":"add","path":"/spec/replicas","value":"many"}]`, code: 422,
			says: "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"},
		{name: "json operation with another field", kind: jsonType, body: `[{"op":"remove","path":"/metadata/labels/a","valeu":1}]`,
			want: func(d *appsv1.Deployment) { delete(d.Labels, "a") }, warnings: []string{`json patch unknown field "[0].valeu"`}},
		{name: "another kind", kind: mergeType, body: `{"kind":"Pod","apiVersion":"v1"}`, code: 422, says: "converting (v1.Pod) to (apps.Deployment): unknown conversion"},
		{name: "another kind, json", kind: jsonType, body: `[{"op":"replace","path":"/kind","value":"DaemonSet"}]`, code: 422, says: "converting (v1.DaemonSet) to (apps.Deployment): unknown conversion"},
		{name: "an unknown kind", kind: mergeType, body: `{"kind":"Rocket"}`, code: 422, says: `no kind "Rocket" is registered for version "apps/v1" in scheme`},
		{name: "another kind, strategic", kind: strategicType, body: `{"kind":"Pod","apiVersion":"v1","spec":{"paused":true}}`, want: func(d *appsv1.Deployment) { d.Spec.Paused = true }},
		{name: "no kind, strategic", kind: strategicType, body: `{"kind":null,"apiVersion":null}`, want: func(*appsv1.Deployment) {}},
		{name: "unknown field warns", kind: mergeType, body: `{"spec":{"foo":1}}`, want: func(*appsv1.Deployment) {}, warnings: []string{`unknown field "spec.foo"`}},
		{name: "unknown field, ignored", kind: mergeType, directive: "Ignore", body: `{"spec":{"foo":1}}`, want: func(*appsv1.Deployment) {}},
		{name: "unknown field, strict", kind: strategicType, directive: "Strict", body: `{"spec":{"foo":1}}`, code: 422,
			says: `patch: Invalid value: "map[spec:map[foo:1]]": strict decoding error: unknown field "spec.foo"`},
		{name: "repeated field, strict", kind: mergeType, directive: "Strict", body: `{"spec":{"paused":true},"spec":{}}`, code: 422, says: `duplicate field "spec"`},
		{name: "repeated field warns", kind: mergeType, body: `{"spec":{"paused":true},"spec":{"paused":true}}`, want: func(d *appsv1.Deployment) { d.Spec.Paused = true }, warnings: []string{`duplicate field "spec"`}},
		{name: "too many operations", kind: jsonType, body: "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"x"},`, 10_000) + `{"op":"test","path":"/kind","value":"x"}]`, code: 413},
		{name: "unknown type", kind: "application/json", body: `{}`, code: 415},
		{name: "server-side apply in CBOR", kind: "application/apply-patch+cbor", body: `{}`, code: 415,
			says: "application/strategic-merge-patch+json, application/apply-patch+yaml"},
		{name: "bad strategic directive", kind: strategicType, body: `{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}`, code: 400, says: "name"},
	}
	patcher := newPatcher(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			kind, err := patch.TypeOf(patched(), c.kind)
			if err != nil {
				check(t, err, c.code, c.says)
				return
			}
			parsed, err := patcher.Parse(kind, []byte(c.body), c.directive)
			if err != nil {
				check(t, err, c.code, c.says)
				return
			}
			for range 2 { // A patch is applied again after a conflict.
				obj := current()
				got, warnings, err := parsed.Apply(obj, &appsv1.Deployment{}, nil)
				if diff := cmp.Diff(current(), obj); diff != "" {
					t.Fatalf("the original object changed:\n%s", diff)
				}
				if err != nil || c.code != 0 {
					check(t, err, c.code, c.says)
					return
				}
				want := current()
				c.want(want)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the object (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.warnings, warnings); diff != "" {
					t.Errorf("the warnings (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func check(t *testing.T, err error, code int32, says string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("%v is not an API error", err)
	}
	text := err.Error()
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			text += "; " + cause.Message
		}
	}
	if status.Status().Code != code || !strings.Contains(text, says) {
		t.Errorf("got %d %s, want %d %q", status.Status().Code, text, code, says)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(byte(0), `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`)
	f.Add(byte(1), `{"metadata":{"labels":null}}`)
	f.Add(byte(2), `{"spec":{"template":{"spec":{"containers":[{"$patch":"replace"},{"name":"z"}]}}}}`)
	f.Add(byte(2), `{"spec":{"template":{"spec":{"$retainKeys":["containers"],"$setElementOrder/containers":[{"name":"two"}]}}}}`)
	patcher := newPatcher(f)
	forms := []string{jsonType, mergeType, strategicType}
	f.Fuzz(func(t *testing.T, kind byte, body string) {
		parsed, err := patcher.Parse(types.PatchType(forms[int(kind)%len(forms)]), []byte(body), "Strict")
		if err != nil {
			return
		}
		obj := current()
		_, _, err = parsed.Apply(obj, &appsv1.Deployment{}, nil)
		var status apierrors.APIStatus
		if err != nil && !errors.As(err, &status) {
			t.Errorf("%s: %v is not an API error", body, err)
		}
		if diff := cmp.Diff(current(), obj); diff != "" {
			t.Errorf("%s changed the original object:\n%s", body, diff)
		}
	})
}

// patched returns the kind of the objects that the tests patch.
func patched() *scheme.Kind { return scheme.For[*appsv1.Deployment](scheme.New()) }
