package doctor

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var backend = types.NamespacedName{Namespace: "shop", Name: "hooks"}

// TestExtension: each fault of definitions, webhooks and policies is a finding, with its advice; nothing else is.
func TestExtension(t *testing.T) {
	type conditions = []apiextensionsv1.CustomResourceDefinitionCondition
	definition := func(age time.Duration, deleted time.Duration, all conditions) func(*Facts) {
		return func(f *Facts) {
			one := &apiextensionsv1.CustomResourceDefinition{
				ObjectMeta: metav1.ObjectMeta{Name: "shops.example.com", CreationTimestamp: metav1.NewTime(now.Add(-age))},
				Status:     apiextensionsv1.CustomResourceDefinitionStatus{Conditions: all},
			}
			if deleted > 0 {
				one.DeletionTimestamp = new(metav1.NewTime(now.Add(-deleted)))
			}
			f.Extension.Definitions = []*apiextensionsv1.CustomResourceDefinition{one}
		}
	}
	established := conditions{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	conflict := conditions{{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Reason: "ListKindConflict", Message: "in use"}}
	remain := conditions{{Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Message: "some instances remain"}}
	hook := func(reached bool, change func(*Hook)) func(*Facts) {
		return func(f *Facts) {
			one := Hook{Name: "check.example.com", Service: backend}
			change(&one)
			f.Extension.Hooks, f.Extension.Reached = []Hook{one}, map[types.NamespacedName]bool{backend: reached}
		}
	}
	expired, lasting := authority(t, -time.Hour), authority(t, time.Hour)
	for _, tc := range []struct {
		name               string
		facts              func(*Facts)
		what, says, advice string
	}{
		{"none", func(*Facts) {}, "", "", ""},
		{"served", definition(time.Hour, 0, established), "", "", ""},
		{"names are taken", definition(time.Second, 0, conflict), "shops.example.com", "ListKindConflict: in use", "other names"},
		{"new", definition(time.Minute, 0, nil), "", "", ""},
		{"not established", definition(time.Hour, 0, nil), "shops.example.com", "not been established", "logs"},
		{"being deleted", definition(time.Hour, time.Minute, remain), "", "", ""},
		{"not deleted", definition(time.Hour, time.Hour, remain), "shops.example.com", "some instances remain", "finalizers"},
		{"a webhook that is reached", hook(true, func(*Hook) {}), "", "", ""},
		{"no endpoint", hook(false, func(*Hook) {}), "webhooks of shop/hooks", "is refused (check.example.com)", "GarboardAdmissionWebhookFails"},
		{"no endpoint, ignored", hook(false, func(h *Hook) { h.Ignored = true }), "webhooks of shop/hooks", "passes unchecked", "GarboardAdmissionWebhookFails"},
		{"no endpoint, conversion", hook(false, func(h *Hook) { h.Conversion = true }), "webhooks of shop/hooks", "neither read nor written", "GarboardConversionWebhookFails"},
		{"by URL", hook(false, func(h *Hook) { h.Service = types.NamespacedName{} }), "", "", ""},
		{"not looked at", hook(true, func(h *Hook) { h.Service.Name = "other" }), "webhooks", "endpoints of 1 were not looked at", "GarboardAdmissionWebhookFails"},
		{"a sound authority", hook(true, func(h *Hook) { h.CABundle = slices.Concat(expired, lasting) }), "", "", ""},
		{"an expired authority", hook(true, func(h *Hook) { h.CABundle = expired }), "authority of webhooks", "has expired", "GarboardAdmissionWebhookFails"},
		{"no certificate", hook(true, func(h *Hook) { h.CABundle = []byte("x") }), "", "", ""},
		{"a wrong expression", func(f *Facts) {
			f.Extension.Policies = map[string][]admissionregistrationv1.ExpressionWarning{"sizes": {{FieldRef: "spec.validations[0].expression", Warning: "no such key"}}}
		}, "policy sizes", "spec.validations[0].expression: no such key", "Correct the expression"},
		{"no right", func(f *Facts) { f.Extension.Err = errors.New("forbidden") }, "all", "forbidden", "customresourcedefinitions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := healthy()
			tc.facts(f)
			wantWarning(t, f, "Extension", tc.what, tc.says, tc.advice)
		})
	}
}

// authority returns a certificate that ends at a time from now on.
func authority(t *testing.T, left time.Duration) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(left)}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// extension answers requests for definitions, webhooks and policies; nil for anything else.
func extension(r *http.Request) any {
	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind}
	}
	service := &admissionregistrationv1.ServiceReference{Namespace: backend.Namespace, Name: backend.Name}
	url := "https://hooks.example.com"
	switch strings.TrimPrefix(r.URL.Path, "/apis/") {
	case "apiextensions.k8s.io/v1/customresourcedefinitions":
		one := apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "shops.example.com"}}
		one.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{}}}
		one.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{Namespace: "none", Name: "none"},
			}},
		}
		return apiextensionsv1.CustomResourceDefinitionList{
			TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinitionList"},
			Items:    []apiextensionsv1.CustomResourceDefinition{one},
		}
	case "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations":
		return admissionregistrationv1.MutatingWebhookConfigurationList{
			TypeMeta: kind("MutatingWebhookConfigurationList"),
			Items: []admissionregistrationv1.MutatingWebhookConfiguration{{Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "change", FailurePolicy: ptr.To(admissionregistrationv1.Ignore), ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: service},
			}}}},
		}
	case "admissionregistration.k8s.io/v1/validatingwebhookconfigurations":
		return admissionregistrationv1.ValidatingWebhookConfigurationList{
			TypeMeta: kind("ValidatingWebhookConfigurationList"),
			Items: []admissionregistrationv1.ValidatingWebhookConfiguration{{Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "check", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			}}}},
		}
	case "admissionregistration.k8s.io/v1/validatingadmissionpolicies":
		policy := admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "sizes"}}
		policy.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{{Warning: "no such key"}}}
		return admissionregistrationv1.ValidatingAdmissionPolicyList{
			TypeMeta: kind("ValidatingAdmissionPolicyList"),
			Items:    []admissionregistrationv1.ValidatingAdmissionPolicy{policy, {ObjectMeta: metav1.ObjectMeta{Name: "sound"}}},
		}
	case "discovery.k8s.io/v1/namespaces/shop/endpointslices", "discovery.k8s.io/v1/namespaces/none/endpointslices":
		list := discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"}}
		ready := r.URL.Query().Get("labelSelector") == discoveryv1.LabelServiceName+"="+backend.Name
		list.Items = []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{
			{Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}, {Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
		}}}
		return list
	}
	return nil
}

// TestGatherExtension gathers what the checks of the group Extension need.
func TestGatherExtension(t *testing.T) {
	a := newAPI(t)
	e := Gather(t.Context(), a.config(), "v1").Extension
	if e.Err != nil {
		t.Fatal(e.Err)
	}
	if len(e.Definitions) != 1 || e.Definitions[0].Name != "shops.example.com" || e.Definitions[0].Spec.Versions != nil {
		t.Errorf("the definitions are %+v", e.Definitions)
	}
	if len(e.Hooks) != 3 || !e.Hooks[0].Conversion || e.Hooks[1].Name != "change" || !e.Hooks[1].Ignored || e.Hooks[1].Service != backend ||
		e.Hooks[2].Name != "check" || e.Hooks[2].Ignored || e.Hooks[2].Service.Name != "" {
		t.Errorf("the webhooks are %+v", e.Hooks)
	}
	unreached, known := e.Reached[types.NamespacedName{Namespace: "none", Name: "none"}]
	if len(e.Reached) != 2 || !e.Reached[backend] || unreached || !known {
		t.Errorf("the Services reached are %v", e.Reached)
	}
	if len(e.Policies) != 1 || e.Policies["sizes"][0].Warning != "no such key" {
		t.Errorf("the policies are %v", e.Policies)
	}
	for _, path := range []string{
		"apiextensions.k8s.io/v1/customresourcedefinitions", "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		"admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"discovery.k8s.io/v1/namespaces/shop/endpointslices",
	} {
		a := newAPI(t)
		a.codes["/apis/"+path] = http.StatusForbidden
		if f := Gather(t.Context(), a.config(), "v1"); !apierrors.IsForbidden(f.Extension.Err) || f.NodesErr != nil {
			t.Errorf("without %s the errors are %v, %v", path, f.Extension.Err, f.NodesErr)
		}
	}
}
