package podsecurity_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podsecurity"
)

const settingsHead = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"

// TestSettings admits what a configuration exempts, and what its defaults decide.
func TestSettings(t *testing.T) {
	const strict = "defaults: {enforce: baseline, warn: restricted}\n"
	class := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.RuntimeClassName = &name }
	}
	none := func(*corev1.Pod) {}
	workload := func(change func(*corev1.Pod)) *appsv1.Deployment {
		p := admissiontest.Pod(change)
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"},
			Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}},
		}
	}
	labelled := func(labels ...string) *corev1.Namespace {
		return admissiontest.Namespace("ns", corev1.NamespaceActive, labels...)
	}
	const refused = `pods "p" is forbidden: violates ` + privilegedBaseline
	for _, tc := range []struct {
		name, settings string
		labels         []string
		req            *admission.Request
		warned, want   string
	}{
		{"the default", strict, nil, &admission.Request{Object: admissiontest.Pod(privileged)}, "", refused},
		{"labels before the default", strict, []string{enforce, "privileged", warns, "privileged"}, &admission.Request{Object: admissiontest.Pod(privileged)}, "", ""},
		{"the default warning", strict, nil, &admission.Request{Object: admissiontest.Pod()}, "would violate " + ordinaryRestricted, ""},
		{"an older version", "defaults: {enforce: baseline, enforce-version: v1.25}\n", nil, &admission.Request{Object: admissiontest.Pod(privileged)}, "",
			"violates " + strings.Replace(privilegedBaseline, "latest", "v1.25", 1)},
		{"an exempt namespace", strict + "exemptions: {namespaces: [ns]}\n", nil, &admission.Request{Object: admissiontest.Pod(privileged)}, "", ""},
		{"a workload in it", strict + "exemptions: {namespaces: [ns]}\n", nil, &admission.Request{Object: workload(none)}, "", ""},
		{"another namespace", strict + "exemptions: {namespaces: [other]}\n", nil, &admission.Request{Object: admissiontest.Pod(privileged)}, "", refused},
		{"an exempt user", strict + "exemptions: {usernames: [alice]}\n", nil, &admission.Request{Object: admissiontest.Pod(privileged)}, "", ""},
		{"another user", strict + "exemptions: {usernames: [bob]}\n", nil, &admission.Request{Object: admissiontest.Pod(privileged)}, "", refused},
		{"an exempt runtime class", strict + "exemptions: {runtimeClasses: [vm]}\n", nil, &admission.Request{Object: admissiontest.Pod(privileged, class("vm"))}, "", ""},
		{"a workload of it", strict + "exemptions: {runtimeClasses: [vm]}\n", nil, &admission.Request{Object: workload(class("vm"))}, "", ""},
		{"another runtime class", strict + "exemptions: {runtimeClasses: [vm]}\n", nil, &admission.Request{Object: admissiontest.Pod(privileged, class("x"))}, "", refused},
		{"labels of an exempt namespace", "exemptions: {namespaces: [ns]}\n", nil, &admission.Request{Object: labelled(enforce, "baseline", audits, "restricted")},
			`namespace "ns" is exempt from Pod Security, and the policy (enforce=baseline:latest, audit=restricted:latest) will be ignored`, ""},
		{"stricter labels of an exempt namespace", "exemptions: {namespaces: [ns]}\n", nil,
			&admission.Request{Verb: admission.Update, Old: labelled(), Object: labelled(enforce, "restricted")},
			`namespace "ns" is exempt from Pod Security, and the policy (enforce=restricted:latest) will be ignored`, ""},
		{"an exempt namespace without labels", strict + "exemptions: {namespaces: [ns]}\n", nil, &admission.Request{Object: labelled()}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New(admissiontest.Namespace("ns", corev1.NamespaceActive, tc.labels...))
			p, err := podsecurity.Plugin(w.Objects(), []byte(settingsHead+tc.settings))
			if err != nil {
				t.Fatal(err)
			}
			warnings, err := w.Admit(t, tc.req, p)
			admissiontest.Refused(t, err, tc.want)
			if got := strings.Join(warnings, "\n"); got != tc.warned {
				t.Errorf("got warnings %s\nwant         %s", got, tc.warned)
			}
		})
	}
}

// TestExistingPodsOfExemptClass checks that a stricter namespace doesn't warn about pods of an exempt
// runtime class.
func TestExistingPodsOfExemptClass(t *testing.T) {
	w := admissiontest.New(
		admissiontest.Pod(privileged, func(p *corev1.Pod) { p.Name, p.Spec.RuntimeClassName = "exempt", new("vm") }),
		admissiontest.Pod(privileged),
	)
	p, err := podsecurity.Plugin(w.Objects(), []byte(settingsHead+"exemptions: {runtimeClasses: [vm]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	warnings, err := w.Admit(t, &admission.Request{
		Verb: admission.Update, Old: admissiontest.Namespace("ns", corev1.NamespaceActive),
		Object: admissiontest.Namespace("ns", corev1.NamespaceActive, enforce, "baseline"),
	}, p)
	if err != nil || len(warnings) != 2 || warnings[1] != "p: privileged" {
		t.Errorf("got %v, warnings %q", err, warnings)
	}
}

func TestFaultySettings(t *testing.T) {
	for text, want := range map[string]string{
		settingsHead + "defaults: {enforce: strict}\n":                "defaults.enforce: Invalid value: \"strict\"",
		settingsHead + "defaults: {warn-version: v0}\n":               "defaults.warn-version: Invalid value: \"v0\"",
		settingsHead + "exemptions: {namespaces: [A]}\n":              "exemptions.namespaces[0]: Invalid value: \"A\"",
		settingsHead + "exemptions: {usernames: [a, a]}\n":            "exemptions.usernames[1]: Duplicate value: \"a\"",
		settingsHead + "exemptions: {namespace: [a]}\n":               `unknown field "exemptions.namespace"`,
		"apiVersion: v1\nkind: PodSecurityConfiguration\n":            "no kind \"PodSecurityConfiguration\" is registered for version \"v1\"",
		strings.Replace(settingsHead, "/v1", "/v1beta1", 1):           "",
		strings.Replace(settingsHead, "/v1", "/v2", 1) + "defaults: ": "v2",
	} {
		_, err := podsecurity.Load([]byte(text))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
