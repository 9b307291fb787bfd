package strategy

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceAccountNamesSecrets(t *testing.T) {
	s := serviceAccount()
	account := func() *corev1.ServiceAccount {
		return &corev1.ServiceAccount{Secrets: []corev1.ObjectReference{{Kind: "Secret", Namespace: "other", Name: "key", UID: "1"}}}
	}
	want := []corev1.ObjectReference{{Name: "key"}}
	a := account()
	s.PrepareForCreate(a)
	if !slices.Equal(a.Secrets, want) {
		t.Errorf("new account: got secrets %+v", a.Secrets)
	}
	a = account()
	s.Update.Prepare(a, &corev1.ServiceAccount{})
	if !slices.Equal(a.Secrets, want) {
		t.Errorf("changed account: got secrets %+v", a.Secrets)
	}
}

func TestWarningsOfSecretsAndAccounts(t *testing.T) {
	tls := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil}}
	if got, want := secret().Warnings(tls), []string{"tls: failed to find any PEM data in certificate input"}; !slices.Equal(got, want) {
		t.Errorf("empty certificate: got warnings %q", got)
	}
	if got := secret().Warnings(&corev1.Secret{Type: corev1.SecretTypeOpaque}); got != nil {
		t.Errorf("secret without a certificate: got warnings %q", got)
	}
	account := &corev1.ServiceAccount{}
	if got := serviceAccount().CreationWarnings(account); got != nil {
		t.Errorf("account: got warnings %q", got)
	}
	account.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}}
	want := []string{"metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
	if got := serviceAccount().CreationWarnings(account); !slices.Equal(got, want) {
		t.Errorf("account with the old annotation: got warnings %q", got)
	}
}
