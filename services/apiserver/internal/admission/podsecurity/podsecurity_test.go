package podsecurity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"

	"github.com/garboard/garboard/services/apiserver/internal/admission/podsecurity"
)

func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func hostNetwork(pod *corev1.Pod) { pod.Spec.HostNetwork = true }

func hostPID(pod *corev1.Pod) { pod.Spec.HostPID = true }

func checker(t *testing.T) *podsecurity.Checker {
	t.Helper()
	c, err := podsecurity.New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// labels returns the labels of a namespace from "enforce=baseline warn=restricted".
func labels(text string) map[string]string {
	set := map[string]string{}
	for part := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(part, "=")
		set["pod-security.kubernetes.io/"+name] = value
	}
	return set
}

// open returns the policy that allows everything.
func open() api.Policy {
	all := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	return api.Policy{Enforce: all, Audit: all, Warn: all}
}

func TestPod(t *testing.T) {
	c := checker(t)
	const host = `violate%s PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`
	for _, tt := range []struct {
		name, labels string
		change       func(*corev1.Pod)
		template     bool
		// refused, warned and audited are parts of the texts; empty if there is none.
		refused, warned, audited string
	}{
		{"no labels", "", hostNetwork, false, "", "", ""},
		{"an allowed pod", "enforce=baseline audit=baseline warn=baseline", nil, false, "", "", ""},
		{"enforced", "enforce=baseline", hostNetwork, false, fmt.Sprintf(host, "s"), "", ""},
		{"a refusal is audited, and not repeated as a warning", "enforce=baseline audit=baseline warn=baseline", hostNetwork, false,
			fmt.Sprintf(host, "s"), "", "would " + fmt.Sprintf(host, "")},
		{"only warned", "enforce=privileged warn=baseline", hostNetwork, false, "", "would " + fmt.Sprintf(host, ""), ""},
		{"only audited", "audit=baseline", hostNetwork, false, "", "", "would " + fmt.Sprintf(host, "")},
		{"a template is never refused", "enforce=baseline warn=baseline", hostNetwork, true, "", "would " + fmt.Sprintf(host, ""), ""},
		{"a stricter warning of an allowed pod", "enforce=baseline warn=restricted", nil, false, "", `would violate PodSecurity "restricted:latest": allowPrivilegeEscalation`, ""},
		{"a version", "enforce=restricted enforce-version=v1.18", nil, false, `violates PodSecurity "restricted:v1.18": `, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policy, errs := podsecurity.Policy(labels(tt.labels), open())
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			pod := newPod("p", tt.change)
			v := c.Pod(policy, &pod.ObjectMeta, &pod.Spec, !tt.template)
			refusal := ""
			if v.Refusal != nil {
				refusal = v.Refusal.Error()
			}
			for what, texts := range map[string][2]string{"refusal": {refusal, tt.refused}, "warning": {v.Warning, tt.warned}, "audit": {v.Audit, tt.audited}} {
				if got, want := texts[0], texts[1]; (got == "") != (want == "") || !strings.HasPrefix(got, want) {
					t.Errorf("the %s is %q, want %q", what, got, want)
				}
			}
		})
	}
}

// TestPolicyOfBadLabels: a label with a typo must not open a namespace.
func TestPolicyOfBadLabels(t *testing.T) {
	for text, want := range map[string]api.Level{
		"enforce=baseline": api.LevelBaseline, "": api.LevelPrivileged, "enforce=basline": api.LevelRestricted, "enforce=": api.LevelRestricted,
		"enforce=baseline enforce-version=v0": api.LevelBaseline,
	} {
		policy, errs := podsecurity.Policy(labels(text), open())
		if policy.Enforce.Level != want {
			t.Errorf("%q is enforced as %s, want %s", text, policy.Enforce.Level, want)
		}
		if bad := want == api.LevelRestricted || strings.Contains(text, "v0"); bad != (len(errs) > 0) {
			t.Errorf("%q has the errors %v", text, errs)
		}
	}
}

func TestTemplate(t *testing.T) {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n"}}
	for _, obj := range []runtime.Object{
		&corev1.PodTemplate{Template: template}, &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &template}},
		&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: template}}, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}},
		&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template}}, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template}},
		&batchv1.Job{Spec: batchv1.JobSpec{Template: template}},
		&batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}},
	} {
		if got := podsecurity.Template(obj); got == nil || got.Spec.NodeName != "n" {
			t.Errorf("the template of a %T is %v", obj, got)
		}
	}
	for _, obj := range []runtime.Object{&corev1.Pod{}, &corev1.ConfigMap{}, &corev1.ReplicationController{}} {
		if got := podsecurity.Template(obj); got != nil {
			t.Errorf("the template of a %T is %v", obj, got)
		}
	}
}

func TestMatters(t *testing.T) {
	old := newPod("p", func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
	})
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":                {func(*corev1.Pod) {}, false},
		"a label":                {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, false},
		"a toleration":           {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, false},
		"an image":               {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }, true},
		"an init container":      {func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "j" }, true},
		"fewer init containers":  {func(p *corev1.Pod) { p.Spec.InitContainers = nil }, true},
		"more containers":        {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{}) }, true},
		"an ephemeral container": {func(p *corev1.Pod) { p.Spec.EphemeralContainers[0].Image = "j" }, true},
		"fewer of those":         {func(p *corev1.Pod) { p.Spec.EphemeralContainers = nil }, false},
		"another of the same name": {func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, p.Spec.EphemeralContainers[0])
		}, false},
	} {
		pod := old.DeepCopy()
		c.change(pod)
		if got := podsecurity.Matters(pod, old); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestStricter(t *testing.T) {
	at := func(level api.Level, minor int) api.LevelVersion {
		return api.LevelVersion{Level: level, Version: api.MajorMinorVersion(1, minor)}
	}
	for _, c := range []struct {
		is, was api.LevelVersion
		want    bool
	}{
		{at(api.LevelBaseline, 30), at(api.LevelBaseline, 30), false},
		{at(api.LevelBaseline, 30), at(api.LevelPrivileged, 30), true},
		{at(api.LevelRestricted, 30), at(api.LevelBaseline, 30), true},
		{at(api.LevelBaseline, 30), at(api.LevelRestricted, 30), false},
		{at(api.LevelBaseline, 31), at(api.LevelRestricted, 30), true}, // A newer standard may refuse more.
		{at(api.LevelPrivileged, 31), at(api.LevelRestricted, 30), false},
	} {
		if got := podsecurity.Stricter(c.is, c.was); got != c.want {
			t.Errorf("%v after %v: got %t", c.is, c.was, got)
		}
	}
}

// TestExisting warns about the pods of a namespace, once for each kind of violation.
func TestExisting(t *testing.T) {
	c := checker(t)
	baseline := api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}
	const head = `existing pods in namespace "shop" violate the new PodSecurity enforce level "baseline:latest"`
	for _, tt := range []struct {
		name string
		pods []*corev1.Pod
		want []string
	}{
		{"no pods", nil, nil},
		{"good pods", []*corev1.Pod{newPod("a", nil)}, nil},
		{"one", []*corev1.Pod{newPod("a", nil), newPod("b", hostNetwork)}, []string{head, "b: host namespaces"}},
		{"two, named by the first", []*corev1.Pod{newPod("b", hostPID), newPod("a", hostNetwork)}, []string{head, "a (and 1 other pod): host namespaces"}},
		{"more, of two kinds", []*corev1.Pod{newPod("c", hostPID), newPod("b", hostPID), newPod("a", hostNetwork), newPod("d", func(pod *corev1.Pod) {
			yes := true
			pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		})}, []string{head, "a (and 2 other pods): host namespaces", "d: privileged"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := c.Existing(t.Context(), "shop", baseline, tt.pods); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	// Of a large number only some are checked, one pod of each owner first: the one bad pod, which
	// has no owner and the last name, is found among those of one ReplicaSet.
	yes := true
	var pods []*corev1.Pod
	for i := range 4000 {
		pods = append(pods, newPod(fmt.Sprintf("a-%04d", i), func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID("rs"), Controller: &yes}}
		}))
	}
	pods = append(pods, newPod("z", hostNetwork))
	ctx, cancel := context.WithCancel(t.Context())
	got := c.Existing(ctx, "shop", baseline, pods)
	if len(got) != 3 || !strings.HasPrefix(got[0], "new PodSecurity enforce level only checked against the first ") ||
		!strings.HasSuffix(got[0], " of 4001 existing pods") || got[2] != "z: host namespaces" {
		t.Errorf("of many pods: got %q", got)
	}
	cancel()
	if got := c.Existing(ctx, "shop", baseline, pods); len(got) != 1 || !strings.Contains(got[0], "the first 1 of 4001 ") {
		t.Errorf("of a request that has ended: got %q", got)
	}
}
