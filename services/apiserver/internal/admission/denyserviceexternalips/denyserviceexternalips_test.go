package denyserviceexternalips

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDenyServiceExternalIPs(t *testing.T) {
	at := func(ips ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: corev1.ServiceSpec{ExternalIPs: ips}}
	}
	const refused = `services "s" is forbidden: Use of external IPs is denied by admission control`
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"create without", &admission.Request{Object: at()}, ""},
		{"create with one", &admission.Request{Object: at("1.1.1.1")}, refused},
		{"keep", &admission.Request{Verb: admission.Update, Old: at("1.1.1.1", "2.2.2.2"), Object: at("2.2.2.2", "1.1.1.1")}, ""},
		{"remove one", &admission.Request{Verb: admission.Update, Old: at("1.1.1.1", "2.2.2.2"), Object: at("2.2.2.2")}, ""},
		{"remove all", &admission.Request{Verb: admission.Update, Old: at("1.1.1.1"), Object: at()}, ""},
		{"add one", &admission.Request{Verb: admission.Update, Old: at("1.1.1.1"), Object: at("1.1.1.1", "2.2.2.2")}, refused},
		{"replace one", &admission.Request{Verb: admission.Update, Old: at("1.1.1.1"), Object: at("2.2.2.2")}, refused},
		{"the status", &admission.Request{Verb: admission.Update, Subresource: "status", Old: at(), Object: at("2.2.2.2")}, ""},
		{"delete", &admission.Request{Verb: admission.Delete, Old: at("1.1.1.1")}, ""},
		{"another kind", &admission.Request{Object: admissiontest.Pod()}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := admissiontest.New().Admit(t, tc.req, Plugin())
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
