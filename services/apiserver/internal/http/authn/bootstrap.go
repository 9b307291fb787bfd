package authn

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"

	"github.com/garboard/garboard/libs/bus/logsample"
)

// BootstrapTokens authenticates the tokens with which new nodes log in for the first time. They are
// Secrets of type bootstrap.kubernetes.io/token in kube-system. The user is system:bootstrap:ID in
// the group system:bootstrappers and the groups that the Secret names.
type BootstrapTokens struct {
	audiences []string
	secret    func(namespace, name string) (*corev1.Secret, bool)
	log       *slog.Logger
	now       func() time.Time
	invalid   logsample.Gate
}

// NewBootstrapTokens returns the authenticator. secret reads from a cache, so that guessing tokens
// costs no reads of etcd. audiences are the API's own, for which the tokens are meant.
func NewBootstrapTokens(audiences []string, secret func(namespace, name string) (*corev1.Secret, bool), log *slog.Logger) *BootstrapTokens {
	return &BootstrapTokens{
		audiences: audiences, secret: secret, log: log, now: time.Now,
	}
}

// Token returns the user of a token of the form ID.SECRET. A fault in the token's Secret is logged
// and hidden from the client, which sees the same as for a token that doesn't exist.
func (b *BootstrapTokens) Token(ctx context.Context, token string, audiences []string) (Result, bool, error) {
	id, secretPart, ok := parseBootstrapToken(token)
	both := audienceless(b.audiences, audiences)
	if !ok || len(both) == 0 {
		return Result{}, false, nil
	}
	secret, ok := b.secret(metav1.NamespaceSystem, bootstraputil.BootstrapTokenSecretName(id))
	if !ok {
		return Result{}, false, nil
	}
	groups, err := b.check(secret, id, secretPart)
	if err != nil {
		// Token IDs are public, so any client can guess.
		if held, open := b.invalid.Open(b.now()); open {
			b.log.InfoContext(ctx, "a bootstrap token is not valid", "namespace", secret.Namespace, "name", secret.Name, "err", err, "notLogged", held)
		}
		return Result{}, false, nil
	}
	return Result{User: User{Name: bootstrapapi.BootstrapUserPrefix + id, Groups: groups}, Audiences: both}, true, nil
}

// parseBootstrapToken splits a token into its ID and secret.
func parseBootstrapToken(token string) (id, secret string, ok bool) {
	if !bootstraputil.IsValidBootstrapToken(token) {
		return "", "", false
	}
	return strings.Cut(token, ".")
}

// Revoked returns the reason why no token with an ID authenticates its user any more; nil if one does.
// The user may have shown another secret part, if the Secret was replaced.
func (b *BootstrapTokens) Revoked(id string) error {
	secret, ok := b.secret(metav1.NamespaceSystem, bootstraputil.BootstrapTokenSecretName(id))
	if !ok {
		return fmt.Errorf("the bootstrap token %s does not exist", id)
	}
	if _, err := b.check(secret, id, string(secret.Data[bootstrapapi.BootstrapTokenSecretKey])); err != nil {
		return fmt.Errorf("the bootstrap token %s is not valid: %w", id, err)
	}
	return nil
}

// check returns the user's groups, or what is wrong with the token's Secret.
func (b *BootstrapTokens) check(secret *corev1.Secret, id, secretPart string) ([]string, error) {
	if secret.DeletionTimestamp != nil {
		return nil, errors.New("it is deleted and awaiting removal")
	}
	if secret.Type != bootstrapapi.SecretTypeBootstrapToken || secret.Data == nil {
		return nil, fmt.Errorf("it has invalid type, expected %s", bootstrapapi.SecretTypeBootstrapToken)
	}
	if subtle.ConstantTimeCompare(secret.Data[bootstrapapi.BootstrapTokenSecretKey], []byte(secretPart)) != 1 {
		return nil, fmt.Errorf("it has another value for key %s", bootstrapapi.BootstrapTokenSecretKey)
	}
	if bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenIDKey) != id {
		return nil, fmt.Errorf("it has invalid value for key %s, expected %s", bootstrapapi.BootstrapTokenIDKey, id)
	}
	if bootstrapsecrets.HasExpired(secret, b.now()) {
		return nil, fmt.Errorf("it expired at %q, or that time cannot be parsed",
			bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenExpirationKey))
	}
	if bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenUsageAuthentication) != "true" {
		return nil, fmt.Errorf("it is not marked %s=true", bootstrapapi.BootstrapTokenUsageAuthentication)
	}
	groups, err := bootstrapsecrets.GetGroups(secret)
	if err != nil {
		return nil, fmt.Errorf("it has invalid value for key %s: %w", bootstrapapi.BootstrapTokenExtraGroupsKey, err)
	}
	return groups, nil
}
