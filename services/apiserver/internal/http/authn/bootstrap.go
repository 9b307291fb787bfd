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

// Names that bootstrap tokens have in Kubernetes.
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
	// bootstrapGroups is what each of the extra groups has to look like.
	bootstrapGroups = `\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`
)

// BootstrapTokens knows the tokens by which new nodes log in for the first time: Secrets of type
// bootstrap.kubernetes.io/token in kube-system. Its user is system:bootstrap:ID in the group
// system:bootstrappers and those that the Secret names.
type BootstrapTokens struct {
	audiences []string
	secret    func(namespace, name string) (*corev1.Secret, bool)
	groups    *regexp.Regexp
	log       *slog.Logger
	now       func() time.Time
	invalid   logsample.Gate
}

// NewBootstrapTokens makes the authenticator. secret reads what is cached, so that who guesses
// tokens costs no reads of etcd. audiences are those of the API, for which the tokens are.
func NewBootstrapTokens(audiences []string, secret func(namespace, name string) (*corev1.Secret, bool), log *slog.Logger) *BootstrapTokens {
	return &BootstrapTokens{
		audiences: audiences, secret: secret, groups: regexp.MustCompile(bootstrapGroups), log: log, now: time.Now,
	}
}

// Token finds the user of a token of the form ID.SECRET. What is wrong with the token's Secret
// is for the log, not for the client: it is answered as one that does not exist.
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
		// Token IDs are public, so that anybody may guess.
		if held, open := b.invalid.Open(b.now()); open {
			b.log.InfoContext(ctx, "A bootstrap token is not valid", "secret", secret.Namespace+"/"+secret.Name, "err", err, "notLogged", held)
		}
		return Result{}, false, nil
	}
	return Result{User: User{Name: bootstrapUser + id, Groups: groups}, Audiences: both}, true, nil
}

// parseBootstrapToken takes a token of six and sixteen lower-case letters and digits apart.
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

// check says what is wrong with a token's Secret, or gives the user's groups.
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
