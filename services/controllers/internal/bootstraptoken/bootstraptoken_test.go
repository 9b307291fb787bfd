package bootstraptoken

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestExpiration(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]struct {
		left    time.Duration
		expired bool
	}{
		"":                          {0, false},
		"2026-01-02T03:04:06Z":      {time.Second, false},
		"2026-01-02T04:04:06+01:00": {time.Second, false},
		"2026-01-02T03:04:05Z":      {0, true},
		"2025-01-02T03:04:05Z":      {0, true},
		"tomorrow":                  {0, true},
		"2026-01-02":                {0, true},
	} {
		left, expired := Expiration(token("x", map[string]string{"expiration": text}), now)
		if left != want.left || expired != want.expired {
			t.Errorf("%q: got %v left, expired %v; want %+v", text, left, expired, want)
		}
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
		"another name":    func(s *corev1.Secret) { s.Name = "bootstrap-token-abc124" },
		"no prefix":       func(s *corev1.Secret) { s.Name = "abc123" },
		"no id":           func(s *corev1.Secret) { s.Name = namePrefix; s.Data[idKey] = nil },
		"an id too long":  func(s *corev1.Secret) { s.Name += "4"; s.Data[idKey] = []byte("abc1234") },
		"an odd id":       func(s *corev1.Secret) { s.Name = namePrefix + "abc-12"; s.Data[idKey] = []byte("abc-12") },
		"no secret":       func(s *corev1.Secret) { delete(s.Data, secretKey) },
		"no usage":        func(s *corev1.Secret) { delete(s.Data, signingKey) },
		"another usage":   func(s *corev1.Secret) { s.Data[signingKey] = []byte("yes") },
		"an end, past":    func(s *corev1.Secret) { s.Data[expirationKey] = []byte("2025-01-02T03:04:05Z") },
		"an end, no time": func(s *corev1.Secret) { s.Data[expirationKey] = []byte("soon") },
	} {
		if _, _, ok := ForSigning(good(change), now); ok {
			t.Errorf("%s: the token may sign, want not", what)
		}
	}
}
