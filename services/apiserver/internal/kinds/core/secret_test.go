package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWarningsOfSecretsAndAccounts(t *testing.T) {
	tls := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil}}
	if got, want := Secret().Warnings(tls), []string{"tls: failed to find any PEM data in certificate input"}; !slices.Equal(got, want) {
		t.Errorf("empty certificate: got warnings %q", got)
	}
	if got := Secret().Warnings(&corev1.Secret{Type: corev1.SecretTypeOpaque}); got != nil {
		t.Errorf("secret without a certificate: got warnings %q", got)
	}
	account := &corev1.ServiceAccount{}
	if got := ServiceAccount().CreationWarnings(account); got != nil {
		t.Errorf("account: got warnings %q", got)
	}
	account.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}}
	want := []string{"metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
	if got := ServiceAccount().CreationWarnings(account); !slices.Equal(got, want) {
		t.Errorf("account with the old annotation: got warnings %q", got)
	}
}
