package authn

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus/logsample"
)

// Names that Kubernetes uses for bootstrap tokens.
const (
	bootstrapNamespace   = metav1.NamespaceSystem
	bootstrapSecret      = "bootstrap-token-"
	bootstrapType        = "bootstrap.kubernetes.io/token"
	bootstrapUser        = "system:bootstrap:"
	bootstrapGroup       = "system:bootstrappers"
	bootstrapID          = "token-id"
	bootstrapSecretKey   = "token-secret"
	bootstrapExpiration  = "expiration"
	bootstrapUsage       = "usage-bootstrap-authentication"
	bootstrapExtraGroups = "auth-extra-groups"
	// bootstrapGroups is the pattern that each extra group must match.
	bootstrapGroups = `\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`
)

// BootstrapTokens authenticates the tokens with which new nodes log in for the first time. They are
// Secrets of type bootstrap.kubernetes.io/token in kube-system. The user is system:bootstrap:ID in
// the group system:bootstrappers and the groups that the Secret names.
type BootstrapTokens struct {
	audiences []string
	secret    func(namespace, name string) (*corev1.Secret, bool)
	groups    *regexp.Regexp
	log       *slog.Logger
	now       func() time.Time
	invalid   logsample.Gate
}

// NewBootstrapTokens returns the authenticator. secret reads from a cache, so that guessing tokens
// costs no reads of etcd. audiences are the API's own, for which the tokens are meant.
func NewBootstrapTokens(audiences []string, secret func(namespace, name string) (*corev1.Secret, bool), log *slog.Logger) *BootstrapTokens {
	return &BootstrapTokens{
		audiences: audiences, secret: secret, groups: regexp.MustCompile(bootstrapGroups), log: log, now: time.Now,
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
	secret, ok := b.secret(bootstrapNamespace, bootstrapSecret+id)
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
	return Result{User: User{Name: bootstrapUser + id, Groups: groups}, Audiences: both}, true, nil
}

// parseBootstrapToken splits a token into its ID and secret, six and sixteen lower-case letters and
// digits.
func parseBootstrapToken(token string) (id, secret string, ok bool) {
	id, secret, ok = strings.Cut(token, ".")
	if !ok || len(id) != 6 || len(secret) != 16 {
		return "", "", false
	}
	for _, c := range id + secret {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return "", "", false
		}
	}
	return id, secret, true
}

// check returns the user's groups, or what is wrong with the token's Secret.
func (b *BootstrapTokens) check(secret *corev1.Secret, id, secretPart string) ([]string, error) {
	if secret.DeletionTimestamp != nil {
		return nil, errors.New("it is deleted and awaiting removal")
	}
	if secret.Type != bootstrapType || secret.Data == nil {
		return nil, fmt.Errorf("it has invalid type, expected %s", bootstrapType)
	}
	if subtle.ConstantTimeCompare(secret.Data[bootstrapSecretKey], []byte(secretPart)) != 1 {
		return nil, fmt.Errorf("it has another value for key %s", bootstrapSecretKey)
	}
	if got := string(secret.Data[bootstrapID]); got != id {
		return nil, fmt.Errorf("it has invalid value for key %s, expected %s", bootstrapID, id)
	}
	if text := string(secret.Data[bootstrapExpiration]); text != "" {
		expiration, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("it has an unparsable expiration time (%s), and is taken for expired: %w", text, err)
		}
		if !b.now().Before(expiration) {
			return nil, fmt.Errorf("it expired at %s", text)
		}
	}
	if string(secret.Data[bootstrapUsage]) != "true" {
		return nil, fmt.Errorf("it is not marked %s=true", bootstrapUsage)
	}
	groups := []string{bootstrapGroup}
	text := string(secret.Data[bootstrapExtraGroups])
	if text == "" {
		return groups, nil
	}
	for group := range strings.SplitSeq(text, ",") {
		if !b.groups.MatchString(group) {
			return nil, fmt.Errorf("it has invalid value for key %s: bootstrap group %q is invalid (must match %s)", bootstrapExtraGroups, group, bootstrapGroups)
		}
		groups = append(groups, group)
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}
