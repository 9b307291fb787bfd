package limits

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, Plugin(w.Objects()))
}

// amounts parses "cpu", "1", "memory", "2Gi", ...
func amounts(list ...string) corev1.ResourceList {
	r := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		r[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
	}
	return r
}

func limitRange(items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func needing(requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func TestLimitRangerDefaults(t *testing.T) {
	w := admissiontest.New(limitRange(
		corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("cpu", "8")},
		corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: amounts("cpu", "2", "memory", "1Gi"), DefaultRequest: amounts("cpu", "1", "memory", "1Gi")},
	))
	p := admissiontest.Pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
		p.Spec.Containers = append(p.Spec.Containers, needing(amounts("cpu", "3"), amounts("cpu", "4", "memory", "2Gi")))
		p.Spec.Containers[1].Name = "d"
	})
	if _, err := try(t, w, &admission.Request{Object: p}); err != nil {
		t.Fatal(err)
	}
	const note = "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c; " +
		"memory request for container d; cpu, memory request for init container i; cpu, memory limit for init container i"
	if diff := cmp.Diff(map[string]string{annotation: note}, p.Annotations); diff != "" {
		t.Errorf("the annotation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(amounts("cpu", "3", "memory", "1Gi"), p.Spec.Containers[1].Resources.Requests); diff != "" {
		t.Errorf("the second container's requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(amounts("cpu", "2", "memory", "1Gi"), p.Spec.InitContainers[0].Resources.Limits); diff != "" {
		t.Errorf("the init container's limits (-want +got):\n%s", diff)
	}
	// Only a resize changes the resources of containers, so the plugin ignores other updates of pods.
	old := admissiontest.Pod()
	if _, err := try(t, w, &admission.Request{Verb: admission.Update, Object: old, Old: old.DeepCopy()}); err != nil || old.Annotations != nil {
		t.Errorf("an update: got %v, annotations %v", err, old.Annotations)
	}
}

func TestLimitRangerBounds(t *testing.T) {
	container := func(i corev1.LimitRangeItem) *corev1.LimitRange {
		i.Type = corev1.LimitTypeContainer
		return limitRange(i)
	}
	whole := func(i corev1.LimitRangeItem) *corev1.LimitRange { i.Type = corev1.LimitTypePod; return limitRange(i) }
	of := func(containers ...corev1.Container) *corev1.Pod {
		return admissiontest.Pod(func(p *corev1.Pod) { p.Spec.Containers = containers })
	}
	pod := func(requests, limits corev1.ResourceList) *corev1.Pod {
		return admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
		})
	}
	for _, tc := range []struct {
		name  string
		limit *corev1.LimitRange
		pod   *corev1.Pod
		want  string
	}{
		{"enough", container(corev1.LimitRangeItem{Min: amounts("cpu", "100m"), Max: amounts("cpu", "2")}), of(needing(amounts("cpu", "1"), amounts("cpu", "2"))), ""},
		{"no request", container(corev1.LimitRangeItem{Min: amounts("cpu", "100m")}), of(needing(nil, nil)), "minimum cpu usage per Container is 100m.  No request is specified"},
		{"small request", container(corev1.LimitRangeItem{Min: amounts("cpu", "100m")}), of(needing(amounts("cpu", "50m"), nil)), "minimum cpu usage per Container is 100m, but request is 50m"},
		{"small limit", container(corev1.LimitRangeItem{Min: amounts("memory", "1Gi")}), of(needing(amounts("memory", "1Gi"), amounts("memory", "1Mi"))), "minimum memory usage per Container is 1Gi, but limit is 1Mi"},
		{"no limit", container(corev1.LimitRangeItem{Max: amounts("cpu", "1")}), of(needing(amounts("cpu", "1"), nil)), "maximum cpu usage per Container is 1.  No limit is specified"},
		{"large limit", container(corev1.LimitRangeItem{Max: amounts("cpu", "1")}), of(needing(nil, amounts("cpu", "2"))), "maximum cpu usage per Container is 1, but limit is 2"},
		{"large request", container(corev1.LimitRangeItem{Max: amounts("cpu", "1")}), of(needing(amounts("cpu", "2"), amounts("cpu", "1"))), "maximum cpu usage per Container is 1, but request is 2"},
		{"high ratio", container(corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu", "1500m")}), of(needing(amounts("cpu", "1"), amounts("cpu", "2"))), "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000"},
		{"allowed ratio", container(corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu", "2")}), of(needing(amounts("cpu", "1"), amounts("cpu", "2"))), ""},
		{"ratio without a request", container(corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu", "2")}), of(needing(nil, amounts("cpu", "2"))), "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		{"ratio without a limit", container(corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu", "2")}), of(needing(amounts("cpu", "2"), nil)), "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		{"a ratio that no float has", container(corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu", "1001")}), of(needing(amounts("cpu", "1m"), amounts("cpu", "1001m"))), ""},
		{"less than a thousandth", container(corev1.LimitRangeItem{Min: amounts("x.io/y", "100u")}), of(needing(amounts("x.io/y", "1u"), nil)), ""},
		{"more than thousandths can count", container(corev1.LimitRangeItem{Max: amounts("memory", "8Ei")}), of(needing(nil, amounts("memory", "7Ei"))), ""},
		{"too many for thousandths", container(corev1.LimitRangeItem{Max: amounts("memory", "6Ei")}), of(needing(nil, amounts("memory", "7Ei"))), "maximum memory usage per Container is 6Ei, but limit is 7Ei"},
		{"several", container(corev1.LimitRangeItem{Min: amounts("cpu", "2", "memory", "1Gi")}), of(needing(amounts("cpu", "1"), nil)), "[minimum cpu usage per Container is 2, but request is 1, minimum memory usage per Container is 1Gi.  No request is specified]"},
		{"init container", container(corev1.LimitRangeItem{Min: amounts("cpu", "2")}), admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{needing(amounts("cpu", "2"), nil)}
			p.Spec.InitContainers = []corev1.Container{needing(amounts("cpu", "1"), nil)}
		}), "minimum cpu usage per Container is 2, but request is 1"},
		{"the sum of a pod", whole(corev1.LimitRangeItem{Max: amounts("cpu", "3")}), of(needing(nil, amounts("cpu", "2")), needing(nil, amounts("cpu", "2"))), "maximum cpu usage per Pod is 3, but limit is 4"},
		{"the sum of a pod with an init container", whole(corev1.LimitRangeItem{Max: amounts("cpu", "4")}), admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{needing(nil, amounts("cpu", "2")), needing(nil, amounts("cpu", "2"))}
			p.Spec.InitContainers = []corev1.Container{needing(nil, amounts("cpu", "3"))}
		}), ""},
		{"a pod's init container", whole(corev1.LimitRangeItem{Max: amounts("cpu", "4")}), admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{needing(nil, amounts("cpu", "2"))}
			p.Spec.InitContainers = []corev1.Container{needing(nil, amounts("cpu", "5"))}
		}), "maximum cpu usage per Pod is 4, but limit is 5"},
		{"a sidecar beside a pod's containers", whole(corev1.LimitRangeItem{Max: amounts("cpu", "4")}), admissiontest.Pod(func(p *corev1.Pod) {
			always := corev1.ContainerRestartPolicyAlways
			p.Spec.Containers = []corev1.Container{needing(nil, amounts("cpu", "3"))}
			p.Spec.InitContainers = []corev1.Container{needing(nil, amounts("cpu", "2"))}
			p.Spec.InitContainers[0].RestartPolicy = &always
		}), "maximum cpu usage per Pod is 4, but limit is 5"},
		{"a pod's overhead", whole(corev1.LimitRangeItem{Max: amounts("cpu", "4")}), admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{needing(nil, amounts("cpu", "4"))}
			p.Spec.Overhead = amounts("cpu", "1")
		}), ""},
		{"a pod's own limit", whole(corev1.LimitRangeItem{Max: amounts("cpu", "4")}), pod(amounts("cpu", "1"), amounts("cpu", "5")), "maximum cpu usage per Pod is 4, but limit is 5"},
		{"a pod's own request", whole(corev1.LimitRangeItem{Min: amounts("memory", "2Gi")}), pod(amounts("memory", "1Gi"), nil), "minimum memory usage per Pod is 2Gi, but request is 1Gi"},
		{"a pod's own huge pages", whole(corev1.LimitRangeItem{Max: amounts("hugepages-2Mi", "4Mi")}), pod(nil, amounts("hugepages-2Mi", "2Mi")), "maximum hugepages-2Mi usage per Pod is 4Mi.  No limit is specified"},
		{"containers of a pod with its own limit", container(corev1.LimitRangeItem{Max: amounts("cpu", "4")}), pod(nil, amounts("cpu", "1")), "maximum cpu usage per Container is 4.  No limit is specified"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := try(t, admissiontest.New(tc.limit), &admission.Request{Object: tc.pod})
			admissiontest.Refused(t, err, tc.want)
		})
	}
}

// TestLimitRangerResizes checks a pod that is resized as one that is created.
func TestLimitRangerResizes(t *testing.T) {
	limit := limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts("cpu", "2"), Default: amounts("cpu", "1")})
	of := func(cpu string) *corev1.Pod {
		return admissiontest.Pod(func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{needing(nil, amounts("cpu", cpu))} })
	}
	going := of("1")
	going.DeletionTimestamp = &metav1.Time{}
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"fits", &admission.Request{Verb: admission.Update, Subresource: "resize", Object: of("2"), Old: of("1")}, ""},
		{"large", &admission.Request{Verb: admission.Update, Subresource: "resize", Object: of("3"), Old: of("1")}, `pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 3`},
		{"set by default", &admission.Request{Verb: admission.Update, Subresource: "resize", Object: admissiontest.Pod(), Old: of("1")}, ""},
		{"being deleted", &admission.Request{Verb: admission.Update, Subresource: "resize", Object: of("3"), Old: going}, ""},
		{"another subresource", &admission.Request{Verb: admission.Update, Subresource: "status", Object: of("3"), Old: of("1")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := try(t, admissiontest.New(limit), tc.req)
			admissiontest.Refused(t, err, tc.want)
		})
	}
}

func claim(size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", size)}},
	}
}

func TestLimitRangerClaims(t *testing.T) {
	limit := limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: amounts("storage", "1Gi"), Max: amounts("storage", "2Gi")})
	going := claim("1Gi")
	going.DeletionTimestamp = &metav1.Time{}
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"fits", &admission.Request{Object: claim("1Gi")}, ""},
		{"small", &admission.Request{Object: claim("1Mi")}, `persistentvolumeclaims "data" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi`},
		{"large", &admission.Request{Object: claim("3Gi")}, "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"},
		{"grows", &admission.Request{Verb: admission.Update, Object: claim("3Gi"), Old: claim("1Gi")}, "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"},
		{"being deleted", &admission.Request{Verb: admission.Update, Object: claim("3Gi"), Old: going}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := try(t, admissiontest.New(limit), tc.req)
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
