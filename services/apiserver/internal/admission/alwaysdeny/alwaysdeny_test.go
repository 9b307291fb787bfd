package alwaysdeny

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAlwaysDeny(t *testing.T) {
	const want = `pods "p" is forbidden: admission control is denying all modifications`
	for _, req := range []*admission.Request{
		{Object: admissiontest.Pod()}, {Verb: admission.Update, Object: admissiontest.Pod(), Old: admissiontest.Pod()}, {Verb: admission.Delete, Old: admissiontest.Pod()},
		{Object: admissiontest.Pod(), Subresource: "eviction"},
	} {
		w := admissiontest.New()
		_, err := w.Admit(t, req, Plugin())
		admissiontest.Refused(t, err, want)
		// A request that only validates is refused as well.
		_, err = w.Admit(t, req, admission.Plugin{Validate: Plugin().Validate})
		admissiontest.Refused(t, err, want)
	}
}
