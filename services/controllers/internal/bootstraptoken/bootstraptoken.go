// Package bootstraptoken reads the Secrets that are bootstrap tokens (kubernetes,
// k8s.io/cluster-bootstrap/util/secrets).
package bootstraptoken

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer"
)

// Parts of a bootstrap token's Secret (kubernetes, k8s.io/cluster-bootstrap/token/api).
const (
	namePrefix = "bootstrap-token-"
	idLength   = 6

	idKey         = "token-id"
	secretKey     = "token-secret"
	expirationKey = "expiration"
	signingKey    = "usage-bootstrap-signing"
)

// Informer returns the informer of Secrets in kube-system, the one namespace where bootstrap tokens
// are valid.
func Informer(informers *informer.Factory) informer.SharedInformer[*corev1.Secret] {
	return informer.ForView[*corev1.Secret](informers, informer.View{Namespace: metav1.NamespaceSystem})
}

// Is reports whether secret is a bootstrap token.
func Is(secret *corev1.Secret) bool {
	return secret.Type == corev1.SecretTypeBootstrapToken && secret.Namespace == metav1.NamespaceSystem
}

// Expiration returns how long a token remains valid, and whether it has expired. The duration is 0
// if the token never expires or has expired; an unreadable time counts as expired.
func Expiration(secret *corev1.Secret, now time.Time) (left time.Duration, expired bool) {
	text := string(secret.Data[expirationKey])
	if text == "" {
		return 0, false
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil || !end.After(now) {
		return 0, true
	}
	return end.Sub(now), false
}

// ForSigning returns the ID and the secret of a token, and whether the token may sign. To sign, it
// must carry its ID in its name, be unexpired, and have the usage signing.
func ForSigning(secret *corev1.Secret, now time.Time) (id, token string, ok bool) {
	id, token = string(secret.Data[idKey]), string(secret.Data[secretKey])
	if id == "" || token == "" || !isID(id) || secret.Name != namePrefix+id {
		return "", "", false
	}
	if _, expired := Expiration(secret, now); expired || string(secret.Data[signingKey]) != "true" {
		return "", "", false
	}
	return id, token, true
}

func isID(id string) bool {
	return len(id) == idLength && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}
