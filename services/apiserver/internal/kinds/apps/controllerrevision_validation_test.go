package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", Namespace: "default"} }

func TestControllerRevision(t *testing.T) {
	r := &appsv1.ControllerRevision{ObjectMeta: meta(), Revision: -1}
	errortest.Exactly(t, validateControllerRevision(r), "revision: Invalid value: -1: must be greater than or equal to 0", "data: Required value: data is mandatory")
	for data, want := range map[string]string{
		"null": "data: Required value: data is mandatory", "[]": "data: Required value: data must be a valid JSON object",
		"{": `data: Invalid value: "<value omitted>": error parsing data: unexpected end of JSON input`,
	} {
		odd := &appsv1.ControllerRevision{ObjectMeta: meta(), Data: runtime.RawExtension{Raw: []byte(data)}}
		errortest.Exactly(t, validateControllerRevision(odd), want)
		errortest.Exactly(t, validateControllerRevisionUpdate(odd, odd))
	}
	r = &appsv1.ControllerRevision{ObjectMeta: meta(), Data: runtime.RawExtension{Raw: []byte("{}")}}
	changed := r.DeepCopy()
	changed.Revision = 3
	errortest.Exactly(t, validateControllerRevisionUpdate(changed, r))
	changed.Data.Raw = []byte(`{"a":1}`)
	errortest.Exactly(t, validateControllerRevisionUpdate(changed, r), `data: Invalid value: {"a":1}: field is immutable`)
}
