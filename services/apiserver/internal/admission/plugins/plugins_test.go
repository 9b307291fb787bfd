package plugins

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDefaultSet compares the default plugins with kube-apiserver's --enable-admission-plugins, as
// far as they exist here, plus NodeRestriction, and their order with Kubernetes' AllOrderedPlugins.
func TestDefaultSet(t *testing.T) {
	w := admissiontest.New()
	escalation := admission.Plugin{Name: "Escalation"}
	another := admission.Plugin{Name: "Another"}
	for _, tc := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"by default", Config{Authorizer: &admissiontest.Authorizer{}}, []string{
			"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "PodSecurity", "Priority",
			"DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "PersistentVolumeClaimResize", "RuntimeClass", "CertificateApproval",
			"CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction",
			"DefaultIngressClass", "PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator",
			"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota",
		}},
		{"with plugins that are off by default", Config{Authorizer: &admissiontest.Authorizer{}, Enable: []string{"AlwaysPullImages", "OwnerReferencesPermissionEnforcement"}}, []string{
			"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "AlwaysPullImages", "PodSecurity", "Priority",
			"DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "RuntimeClass",
			"CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction",
			"DefaultIngressClass", "PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator",
			"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota",
		}},
		{"with extra plugins", Config{Extra: []admission.Plugin{escalation, another}}, []string{
			"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "PodSecurity", "Priority",
			"DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "PersistentVolumeClaimResize", "RuntimeClass", "CertificateSubjectRestriction",
			"DefaultIngressClass", "PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator",
			"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "Escalation", "Another", "ResourceQuota",
		}},
		{"with disabled plugins", Config{
			Extra:   []admission.Plugin{another},
			Disable: []string{"PodSecurity", "NodeRestriction", "ResourceQuota", "LimitRanger", "DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "PersistentVolumeClaimResize"},
		}, []string{
			"NamespaceLifecycle", "ServiceAccount", "TaintNodesByCondition", "Priority", "DefaultTolerationSeconds", "RuntimeClass", "CertificateSubjectRestriction",
			"DefaultIngressClass", "PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator",
			"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "Another",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Table, tc.cfg.Lookup = w.Table, w
			chain, err := New(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, chain.Names()); diff != "" {
				t.Errorf("the plugins (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesOfPlugins(t *testing.T) {
	w := admissiontest.New()
	for _, tc := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"unknown to enable", Config{Enable: []string{"PodSecurty"}}, []string{`enable-admission-plugins plugin "PodSecurty" is unknown`, "NamespaceLifecycle", "ResourceQuota"}},
		{"unknown to disable", Config{Disable: []string{"Webhooks"}}, []string{`disable-admission-plugins plugin "Webhooks" is unknown`}},
		{"enabled and disabled", Config{Enable: []string{"PodSecurity"}, Disable: []string{"PodSecurity"}}, []string{"[PodSecurity] in enable-admission-plugins and disable-admission-plugins overlapped"}},
		{"two with the same name", Config{Extra: []admission.Plugin{{Name: "Priority"}}}, []string{`two plugins named "Priority"`}},
		{"a plugin that cannot be disabled", Config{Extra: []admission.Plugin{{Name: "Escalation"}}, Disable: []string{"Escalation"}}, []string{`"Escalation" is unknown`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Table, tc.cfg.Lookup = w.Table, w
			_, err := New(tc.cfg)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New accepted an empty configuration")
	}
}

// TestOrdinaryPod runs a pod through all plugins that are on by default.
func TestOrdinaryPod(t *testing.T) {
	w := admissiontest.New()
	chain, err := New(Config{Table: w.Table, Lookup: w, Authorizer: &admissiontest.Authorizer{}})
	if err != nil {
		t.Fatal(err)
	}
	p := admissiontest.Pod()
	warnings, err := w.AdmitBy(t, &admission.Request{Object: p}, chain)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got %v, warnings %v", err, warnings)
	}
	if p.Spec.ServiceAccountName != "default" || p.Spec.Priority == nil || len(p.Spec.Tolerations) != 2 || len(p.Spec.Volumes) != 1 {
		t.Errorf("got %+v", p.Spec)
	}
	// A binding is admitted with its own type, as a subresource of a pod.
	_, err = w.AdmitBy(t, &admission.Request{
		Kind: scheme.For[*corev1.Pod](w.Table), Namespace: "ns", Name: "p", Subresource: "binding", Object: &corev1.Binding{},
	}, chain)
	if err != nil {
		t.Errorf("admitting a binding: %v", err)
	}
}

// TestDocumentedPlugins compares the table of plugins in the documentation with the list.
func TestDocumentedPlugins(t *testing.T) {
	const page = "../../../../../docs/reference/authorization.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		is := strings.TrimSpace(cells[2])
		if is != "on" && is != "off" {
			continue
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			documented[strings.TrimSpace(name)] = is
		}
	}
	listed := map[string]string{}
	for _, p := range List() {
		listed[p.Name] = "off"
		if p.Default {
			listed[p.Name] = "on"
		}
	}
	if diff := cmp.Diff(listed, documented); diff != "" {
		t.Errorf("the plugins (-list +%s):\n%s", page, diff)
	}
}
