package antiaffinity

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLimitPodHardAntiAffinityTopology(t *testing.T) {
	away := func(keys ...string) *corev1.Pod {
		return admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
			for _, key := range keys {
				terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				*terms = append(*terms, corev1.PodAffinityTerm{TopologyKey: key})
			}
		})
	}
	const host, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
	const refused = `pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed`
	preferred := admissiontest.Pod(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: zone}},
			}},
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: zone}}},
		}
	})
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"no affinity", &admission.Request{Object: admissiontest.Pod()}, ""},
		{"no terms", &admission.Request{Object: away()}, ""},
		{"nodes", &admission.Request{Object: away(host, host)}, ""},
		{"zones", &admission.Request{Object: away(zone)}, refused},
		{"nodes and zones", &admission.Request{Object: away(host, zone)}, refused},
		{"an update", &admission.Request{Verb: admission.Update, Object: away(zone), Old: away(zone)}, refused},
		{"preferred, and near others", &admission.Request{Object: preferred}, ""},
		{"a subresource", &admission.Request{Object: away(zone), Subresource: "status"}, ""},
		{"delete", &admission.Request{Verb: admission.Delete, Old: away(zone)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := admissiontest.New().Admit(t, tc.req, Plugin())
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
