package alwaysadmit

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAlwaysAdmit(t *testing.T) {
	for _, req := range []*admission.Request{
		{Object: admissiontest.Pod()}, {Verb: admission.Update, Object: admissiontest.Pod(), Old: admissiontest.Pod()}, {Verb: admission.Delete, Old: admissiontest.Pod()},
	} {
		if _, err := admissiontest.New().Admit(t, req, Plugin()); err != nil {
			t.Errorf("%s: %v", req.Verb, err)
		}
		if req.Object != nil && !equality.Semantic.DeepEqual(req.Object, admissiontest.Pod()) {
			t.Errorf("%s: the pod is changed: %+v", req.Verb, req.Object)
		}
	}
}
