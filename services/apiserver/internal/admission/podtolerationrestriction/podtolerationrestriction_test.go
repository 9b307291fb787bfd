package podtolerationrestriction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const head = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n"

// exists tolerates each taint of a key.
func exists(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
}

// pressured is what a pod that is not best effort tolerates.
func pressured() corev1.Toleration {
	return corev1.Toleration{Key: "node.kubernetes.io/memory-pressure", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
}

func TestPodTolerationRestriction(t *testing.T) {
	const (
		defaultA  = "scheduler.alpha.kubernetes.io/defaultTolerations=[{\"key\":\"a\",\"operator\":\"Exists\"}]"
		allowA    = "scheduler.alpha.kubernetes.io/tolerationsWhitelist=[{\"key\":\"a\",\"operator\":\"Exists\"}]"
		conflict  = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"
		ofCluster = "pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist"
		config    = head + "default: [{key: c, operator: Exists}]\nwhitelist: [{key: c, operator: Exists}]\n"
	)
	type list = []corev1.Toleration
	update := func(req *admission.Request) { req.Verb, req.Old = admission.Update, req.Object }
	burstable := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	}
	for _, tc := range []struct {
		name, config string
		annotations  []string
		has          list
		change       func(*corev1.Pod)
		req          func(*admission.Request)
		want         list
		fault        string
	}{
		{"nothing", "", nil, nil, nil, nil, nil, ""},
		{"no restriction", "", nil, list{exists("x")}, nil, nil, list{exists("x")}, ""},
		{"the namespace's default", "", []string{defaultA}, list{exists("x")}, nil, nil, list{exists("x"), exists("a")}, ""},
		{"a default that the pod has", "", []string{defaultA}, list{exists("a")}, nil, nil, list{exists("a")}, ""},
		{"the default of an update", "", []string{defaultA}, nil, nil, update, nil, ""},
		{"the cluster's default", config, nil, nil, nil, nil, list{exists("c")}, ""},
		{"an empty default of the namespace", config, []string{"scheduler.alpha.kubernetes.io/defaultTolerations="}, nil, nil, nil, nil, ""},
		{"allowed by the namespace", config, []string{allowA, defaultA}, list{exists("a")}, nil, nil, list{exists("a")}, ""},
		{"refused by the namespace", config, []string{allowA, defaultA}, list{exists("x")}, nil, nil, nil, conflict},
		{"a refused update", "", []string{allowA}, list{exists("x")}, nil, update, nil, conflict},
		{"a default that is refused", config, []string{allowA}, nil, nil, nil, nil, conflict},
		{"refused by the cluster", config, nil, list{exists("x")}, nil, nil, nil, ofCluster},
		{"an empty list of the namespace", config, []string{"scheduler.alpha.kubernetes.io/tolerationsWhitelist="}, list{exists("x")}, nil, nil, list{exists("x"), exists("c")}, ""},
		{"a burstable pod", "", nil, nil, burstable, nil, list{pressured()}, ""},
		{"a burstable pod's update", "", nil, nil, burstable, update, list{pressured()}, ""},
		{"a burstable pod that says it is best effort", "", nil, nil, func(p *corev1.Pod) {
			burstable(p)
			p.Status.QOSClass = corev1.PodQOSBestEffort
		}, nil, nil, ""},
		{"resources of the pod", "", nil, nil, func(p *corev1.Pod) { p.Spec.Resources = &p.Spec.Containers[0].Resources; burstable(p) }, nil, list{pressured()}, ""},
		{"a faulty annotation", "", []string{"scheduler.alpha.kubernetes.io/defaultTolerations=x"}, nil, nil, nil, nil, "invalid character 'x' looking for beginning of value"},
		{"a subresource", "", []string{allowA}, list{exists("x")}, nil, func(req *admission.Request) { req.Subresource = "eviction" }, list{exists("x")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			namespace := admissiontest.Namespace("ns", corev1.NamespaceActive)
			namespace.Annotations = map[string]string{}
			for _, a := range tc.annotations {
				key, value, _ := strings.Cut(a, "=")
				namespace.Annotations[key] = value
			}
			w := admissiontest.New(namespace)
			p, err := Plugin(w.Objects(), []byte(tc.config))
			if err != nil {
				t.Fatal(err)
			}
			pod := admissiontest.Pod(func(p *corev1.Pod) { p.Spec.Tolerations = tc.has })
			if tc.change != nil {
				tc.change(pod)
			}
			req := &admission.Request{Object: pod}
			if tc.req != nil {
				tc.req(req)
			}
			_, err = w.Admit(t, req, p)
			if (err != nil) != (tc.fault != "") || err != nil && err.Error() != tc.fault {
				t.Errorf("got  %v\nwant %s", err, tc.fault)
			}
			if err != nil && apierrors.ReasonForError(err) != "" {
				t.Errorf("the reason is %s, want none", apierrors.ReasonForError(err))
			}
			if diff := cmp.Diff(tc.want, pod.Spec.Tolerations); err == nil && diff != "" {
				t.Errorf("the tolerations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissingNamespace(t *testing.T) {
	w := admissiontest.New()
	p, err := Plugin(w.Objects(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := admissiontest.Pod(func(p *corev1.Pod) { p.Namespace = "none" })
	if _, err := w.Admit(t, &admission.Request{Object: pod}, p); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestFaultyConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		head + "default: [{key: a, operator: Near}]":                 `invalid config: podtolerationrestriction.default[0].operator: Unsupported value: "Near"`,
		head + "whitelist: [{operator: Equal}]":                      "podtolerationrestriction.whitelist[0].operator: Invalid value",
		head + "allowed: []":                                         `unknown field "allowed"`,
		"apiVersion: podtolerationrestriction.admission.k8s.io/v1\n": "known are kind Configuration",
	} {
		if _, err := Plugin(admission.Objects{}, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
