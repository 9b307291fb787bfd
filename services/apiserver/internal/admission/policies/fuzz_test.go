package policies_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
)

// slowest is how long anything may take that the fuzzer finds; race detectors and busy machines included.
const slowest = 30 * time.Second

// FuzzExpressions has an author of policies write any expressions: the check of a pod, its message, and a change of the pod.
// Whatever they are, a request ends in time, either with an error of the API or with a pod.
func FuzzExpressions(f *testing.F) {
	for _, seed := range [][3]string{
		{"object.metadata.name == 'p'", "'not ' + object.metadata.name", `Object{metadata: Object.metadata{labels: {'a': 'x'}}}`},
		{"object.spec.containers.all(c, c.image.matches('^a+$')) && variables.v", "string(request.userInfo)", `[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]`},
		{"authorizer.group('').resource('pods').check('get').allowed()", "namespaceObject.metadata.name", `[JSONPatch{op: "remove", path: "/spec"}]`},
		{"params == null || [1, 2].exists(i, i / (i - 1) > 0)", "'a'.format([1])", `Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", image: "i"}]}}`},
		{"quantity('1e400').isInteger() || url('http://[::1').getHost() == ''", "dyn(1)", `[JSONPatch{op: "move", from: "/metadata", path: "/metadata/a"}]`},
		{"1 +", "object.", "Object{"}, {"oldObject.x.y[0]", "''", "[]"}, {strings.Repeat("(", 300), "null", "null"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	w := newWorld(f, policy("{}", "validationActions: [Deny, Audit]")+
		mutatingOf("applying", "failurePolicy: Ignore\nmutations: [{patchType: ApplyConfiguration, applyConfiguration: {}}]", "")+
		mutatingOf("patching", "failurePolicy: Ignore\nmutations: [{patchType: JSONPatch, jsonPatch: {}}]", ""))
	checking := find[*admissionv1.ValidatingAdmissionPolicy](w, "p")
	applying := find[*admissionv1.MutatingAdmissionPolicy](w, "applying")
	patching := find[*admissionv1.MutatingAdmissionPolicy](w, "patching")
	f.Fuzz(func(t *testing.T, check, message, change string) {
		if !utf8.ValidString(check + message + change) {
			return // No request can have it.
		}
		w.t = t
		began := time.Now()
		with := checking.DeepCopy()
		with.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: check}}
		with.Spec.Variables = []admissionv1.Variable{{Name: "v", Expression: check}}
		with.Spec.Validations = []admissionv1.Validation{{Expression: check, Message: "m", MessageExpression: message}}
		with.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "k", ValueExpression: message}}
		w.put(with)
		for _, policy := range []*admissionv1.MutatingAdmissionPolicy{applying.DeepCopy(), patching.DeepCopy()} {
			if apply := policy.Spec.Mutations[0].ApplyConfiguration; apply != nil {
				apply.Expression = change
			} else {
				policy.Spec.Mutations[0].JSONPatch.Expression = change
			}
			w.put(policy)
		}
		changed := pod("a", "b")
		if err := w.create(changed).err; err != nil {
			if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
				t.Errorf("the error is none of the API: %v", err)
			}
		} else if _, err := json.Marshal(changed); err != nil {
			t.Errorf("the pod cannot be written: %v", err)
		}
		if took := time.Since(began); took > slowest {
			t.Errorf("%d, %d and %d bytes took %v", len(check), len(message), len(change), took)
		}
	})
}

// find returns an object of the world.
func find[T scheme.Object](w *world, name string) T {
	w.t.Helper()
	obj, err := w.Get(w.t.Context(), scheme.For[T](w.Table), "", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return obj.(T)
}
