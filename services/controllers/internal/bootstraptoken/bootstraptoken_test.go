package bootstraptoken

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

func token(name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

func TestIs(t *testing.T) {
	if !Is(token("x", nil)) {
		t.Error("a bootstrap token is not recognized")
	}
	elsewhere, other := token("x", nil), token("x", nil)
	elsewhere.Namespace, other.Type = "default", corev1.SecretTypeOpaque
	if Is(elsewhere) || Is(other) {
		t.Error("another Secret is taken for a bootstrap token")
	}
}

func TestForSigning(t *testing.T) {
	good := func(change func(*corev1.Secret)) *corev1.Secret {
		secret := token("bootstrap-token-abc123", map[string]string{
			"token-id": "abc123", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
			"expiration": "2026-01-02T03:04:05Z",
		})
		if change != nil {
			change(secret)
		}
		return secret
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if id, secret, ok := ForSigning(good(nil), now); !ok || id != "abc123" || secret != "0123456789abcdef" {
		t.Errorf("got id %q, secret %q, %v; want a token that may sign", id, secret, ok)
	}
	for what, change := range map[string]func(*corev1.Secret){
		"another name": func(s *corev1.Secret) { s.Name = "bootstrap-token-abc124" },
		"no prefix":    func(s *corev1.Secret) { s.Name = "abc123" },
		"no id": func(s *corev1.Secret) {
			s.Name = bootstrapapi.BootstrapTokenSecretPrefix
			s.Data[bootstrapapi.BootstrapTokenIDKey] = nil
		},
		"an id too long": func(s *corev1.Secret) { s.Name += "4"; s.Data[bootstrapapi.BootstrapTokenIDKey] = []byte("abc1234") },
		"an odd id": func(s *corev1.Secret) {
			s.Name = bootstrapapi.BootstrapTokenSecretPrefix + "abc-12"
			s.Data[bootstrapapi.BootstrapTokenIDKey] = []byte("abc-12")
		},
		"no secret":     func(s *corev1.Secret) { delete(s.Data, bootstrapapi.BootstrapTokenSecretKey) },
		"no usage":      func(s *corev1.Secret) { delete(s.Data, bootstrapapi.BootstrapTokenUsageSigningKey) },
		"another usage": func(s *corev1.Secret) { s.Data[bootstrapapi.BootstrapTokenUsageSigningKey] = []byte("yes") },
		"an end, past": func(s *corev1.Secret) {
			s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte("2025-01-02T03:04:05Z")
		},
		"an end, now": func(s *corev1.Secret) {
			s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte("2026-01-01T01:00:00+01:00")
		},
		"an end, a date":  func(s *corev1.Secret) { s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte("2026-01-02") },
		"an end, no time": func(s *corev1.Secret) { s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte("soon") },
	} {
		if _, _, ok := ForSigning(good(change), now); ok {
			t.Errorf("%s: the token may sign, want not", what)
		}
	}
}
