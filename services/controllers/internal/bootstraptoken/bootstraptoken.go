// Package bootstraptoken reads the Secrets that are bootstrap tokens, for the controllers that act on
// them.
package bootstraptoken

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// View returns the view of kube-system, the one namespace where bootstrap tokens are valid.
func View() informer.View { return informer.View{Namespace: metav1.NamespaceSystem} }

// Each returns a handler that calls f for every change of a bootstrap token.
func Each(f func(q controller.Queue, token metav1.Object)) func(q controller.Queue, old, now *corev1.Secret) {
	return func(q controller.Queue, old, now *corev1.Secret) {
		switch {
		case now != nil && Is(now):
			f(q, now)
		case old != nil && Is(old):
			f(q, old)
		}
	}
}

// Is reports whether secret is a bootstrap token.
func Is(secret *corev1.Secret) bool {
	return secret.Type == bootstrapapi.SecretTypeBootstrapToken && secret.Namespace == metav1.NamespaceSystem
}

// ForSigning returns the ID and the secret of a token, and whether the token may sign. To sign, it
// must carry its ID in its name, be unexpired, and have the usage signing.
func ForSigning(secret *corev1.Secret, now time.Time) (id, token string, ok bool) {
	id = bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenIDKey)
	token = bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenSecretKey)
	if named, ok := bootstrapsecrets.ParseName(secret.Name); !ok || named != id || token == "" {
		return "", "", false
	}
	usage := bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenUsageSigningKey)
	if bootstrapsecrets.HasExpired(secret, now) || usage != "true" {
		return "", "", false
	}
	return id, token, true
}
