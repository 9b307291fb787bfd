package podsecurity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podsecurity"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, plugin(t, w))
}

func plugin(t *testing.T, w *admissiontest.World) admission.Plugin {
	t.Helper()
	p, err := podsecurity.Plugin(w.Objects(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	enforce = "pod-security.kubernetes.io/enforce"
	warns   = "pod-security.kubernetes.io/warn"
	audits  = "pod-security.kubernetes.io/audit"
)

func privileged(p *corev1.Pod) {
	yes := true
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
}

// Kubernetes' messages about an ordinary and a privileged pod.
const (
	ordinaryRestricted = `PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), ` +
		`unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), ` +
		`runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), ` +
		`seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`
	privilegedBaseline = `PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`
)

func TestPodSecurity(t *testing.T) {
	workload := func(change func(*corev1.Pod)) *appsv1.Deployment {
		p := admissiontest.Pod(change)
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"},
			Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}},
		}
	}
	same := func(*corev1.Pod) {}
	image := func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }
	for _, tc := range []struct {
		name   string
		labels []string
		req    *admission.Request
		warned string
		want   string
	}{
		{"no labels", nil, &admission.Request{Object: admissiontest.Pod(privileged)}, "", ""},
		{"restricted", []string{enforce, "restricted"}, &admission.Request{Object: admissiontest.Pod()}, "", `pods "p" is forbidden: violates ` + ordinaryRestricted},
		{"baseline", []string{enforce, "baseline"}, &admission.Request{Object: admissiontest.Pod()}, "", ""},
		{"baseline, privileged", []string{enforce, "baseline"}, &admission.Request{Object: admissiontest.Pod(privileged)}, "", `pods "p" is forbidden: violates ` + privilegedBaseline},
		{"a version", []string{enforce, "baseline", enforce + "-version", "v1.25"}, &admission.Request{Object: admissiontest.Pod(privileged)}, "", "violates " + strings.Replace(privilegedBaseline, "latest", "v1.25", 1)},
		{"warned", []string{warns, "baseline"}, &admission.Request{Object: admissiontest.Pod(privileged)}, "would violate " + privilegedBaseline, ""},
		{"audited", []string{audits, "baseline"}, &admission.Request{Object: admissiontest.Pod(privileged)}, "", ""},
		{"a refusal without a warning", []string{enforce, "baseline", warns, "restricted"}, &admission.Request{Object: admissiontest.Pod(privileged)}, "", "violates " + privilegedBaseline},
		{"an allowed pod with a warning", []string{enforce, "baseline", warns, "restricted"}, &admission.Request{Object: admissiontest.Pod()}, "would violate " + ordinaryRestricted, ""},
		{"an unknown level", []string{enforce, "strict"}, &admission.Request{Object: admissiontest.Pod()}, "", "violates " + ordinaryRestricted},
		{"a workload with a warning", []string{enforce, "restricted"}, &admission.Request{Object: workload(same)}, "would violate " + ordinaryRestricted, ""},
		{"an allowed workload", []string{enforce, "baseline"}, &admission.Request{Object: workload(same)}, "", ""},
		{"a workload's scale", []string{enforce, "restricted"}, &admission.Request{Verb: admission.Update, Object: workload(same), Old: workload(same), Subresource: "scale"}, "", ""},
		{"an update of another field", []string{enforce, "baseline"}, &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(privileged), Old: admissiontest.Pod(privileged)}, "", ""},
		{"an update of an image", []string{enforce, "baseline"}, &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(privileged, image), Old: admissiontest.Pod(privileged)}, "", "violates " + privilegedBaseline},
		{"a status", []string{enforce, "baseline"}, &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(privileged, image), Old: admissiontest.Pod(privileged), Subresource: "status"}, "", ""},
		{"a deletion", []string{enforce, "baseline"}, &admission.Request{Verb: admission.Delete, Old: admissiontest.Pod(privileged)}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New(admissiontest.Namespace("ns", corev1.NamespaceActive, tc.labels...))
			warnings, err := try(t, w, tc.req)
			admissiontest.Refused(t, err, tc.want)
			if got := strings.Join(warnings, "\n"); got != tc.warned {
				t.Errorf("got warnings %s\nwant         %s", got, tc.warned)
			}
		})
	}
}

func TestPodSecurityOfNamespaces(t *testing.T) {
	labelled := func(labels ...string) *corev1.Namespace {
		return admissiontest.Namespace("ns", corev1.NamespaceActive, labels...)
	}
	const invalid = `Namespace "ns" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted`
	for _, tc := range []struct {
		name     string
		old, new *corev1.Namespace
		want     string
	}{
		{"good labels", nil, labelled(enforce, "baseline", warns+"-version", "v1.30"), ""},
		{"an unknown level", nil, labelled(enforce, "strict"), invalid},
		{"an invalid version", nil, labelled(warns+"-version", "1.30"), `Namespace "ns" is invalid: metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.30": must be "latest" or "v1.x"`},
		{"a new invalid label", labelled(), labelled(enforce, "strict"), invalid},
		{"an old invalid label", labelled(enforce, "strict"), labelled(enforce, "strict", "other", "x"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := &admission.Request{Object: tc.new}
			if tc.old != nil {
				req.Verb, req.Old = admission.Update, tc.old
			}
			_, err := try(t, admissiontest.New(), req)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if tc.want != "" && !apierrors.IsInvalid(err) {
				t.Errorf("got %v, which is not a 422", err)
			}
		})
	}
}

func TestPodSecurityTellsOfExistingPods(t *testing.T) {
	w := admissiontest.New()
	yes := true
	for i := range 3 {
		w.Put(admissiontest.Pod(privileged, func(p *corev1.Pod) {
			p.Name = fmt.Sprintf("web-%d", i)
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID("rs"), Controller: &yes}}
		}))
	}
	recent := admissiontest.Pod(func(p *corev1.Pod) { p.Name, p.Spec.HostNetwork = "net", true })
	w.Put(recent)
	w.Unlist(recent)
	w.Put(admissiontest.Pod(func(p *corev1.Pod) { p.Name = "fine" }))
	at := func(labels ...string) *corev1.Namespace {
		return admissiontest.Namespace("ns", corev1.NamespaceActive, labels...)
	}
	found := []string{
		`existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"`,
		"net: host namespaces", "web-0 (and 2 other pods): privileged",
	}
	for _, tc := range []struct {
		name     string
		old, new *corev1.Namespace
		want     []string
	}{
		{"stricter", at(), at(enforce, "baseline"), found},
		{"another version", at(enforce, "baseline", enforce+"-version", "v1.30"), at(enforce, "baseline"), found},
		{"the same", at(enforce, "baseline"), at(enforce, "baseline", "other", "x"), nil},
		{"laxer", at(enforce, "restricted"), at(enforce, "baseline"), nil},
		{"none", at(enforce, "restricted"), at(), nil},
		{"warn only", at(), at(warns, "baseline"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // With fake time, the time limit ends no check.
				warnings, err := try(t, w, &admission.Request{Verb: admission.Update, Object: tc.new, Old: tc.old})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, warnings); diff != "" {
					t.Errorf("the warnings (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPodSecurityIsAudited checks the audit annotations for a pod that violates the audited
// standard.
func TestPodSecurityIsAudited(t *testing.T) {
	policy, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	auditor := audit.New(audit.Config{
		Policy: policy, File: audit.File{Path: path}, Mode: audit.ModeBlocking, Logger: slog.Default(), Registerer: prometheus.NewRegistry(),
	})
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- auditor.Run(running) }()
	record := auditor.Begin(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), audit.Request{ID: "x"})

	w := admissiontest.New(admissiontest.Namespace("ns", corev1.NamespaceActive, enforce, "baseline", audits, "restricted"))
	req := &admission.Request{Verb: admission.Create, Kind: w.Table.KindOf(admissiontest.Pod()), Namespace: "ns", Name: "p", Object: admissiontest.Pod()}
	if err := plugin(t, w).Validate(audit.With(t.Context(), record), req); err != nil {
		t.Error(err)
	}
	record.Complete(false)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var event struct{ Annotations map[string]string }
	if err := json.Unmarshal(data, &event); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	want := map[string]string{
		"pod-security.kubernetes.io/enforce-policy":   "baseline:latest",
		"pod-security.kubernetes.io/audit-violations": "would violate " + ordinaryRestricted,
	}
	if diff := cmp.Diff(want, event.Annotations); diff != "" {
		t.Errorf("the annotations (-want +got):\n%s", diff)
	}
}
