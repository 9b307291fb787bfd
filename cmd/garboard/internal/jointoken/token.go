// Package jointoken creates the bootstrap tokens by which nodes join, and the permissions that
// joining requires: Secrets and ClusterRoleBindings with kubeadm's names, so that kubeadm's
// documentation applies.
package jointoken

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
)

const (
	// DefaultGroup is the group of the tokens by which nodes join: kubeadm's, which Bind grants the
	// permission to join.
	DefaultGroup = "system:bootstrappers:kubeadm:default-node-token"
	// DefaultTTL is the default validity of a token: long enough to join, and soon useless to a
	// thief.
	DefaultTTL = time.Hour

	idForm = `[a-z0-9]{6}`
	form   = idForm + `\.[a-z0-9]{16}`
)

// Usages returns the possible usages of a token.
func Usages() []string { return slices.Clone(bootstrapapi.KnownTokenUsages) }

// Token is a bootstrap token.
type Token struct {
	// ID is public, Secret is not.
	ID, Secret string
	// Description is for people.
	Description string
	// Expires is when the token expires; never if zero.
	Expires time.Time
	// Usages are a subset of Usages().
	Usages []string
	// Groups are those of the token's user, besides system:bootstrappers.
	Groups []string
}

// String returns the token as presented to the apiserver.
func (t Token) String() string { return bootstraputil.TokenFromIDAndSecret(t.ID, t.Secret) }

// Parse parses ID.SECRET.
func Parse(text string) (Token, error) {
	if !bootstraputil.IsValidBootstrapToken(text) {
		// The error omits the text, which may be a secret with a typo.
		return Token{}, errors.New("the bootstrap token was not of the form \"" + form + `"`)
	}
	id, secret, _ := strings.Cut(text, ".")
	return Token{ID: id, Secret: secret}, nil
}

// ParseID parses the ID of a token, or a whole token.
func ParseID(text string) (string, error) {
	if bootstraputil.IsValidBootstrapTokenID(text) {
		return text, nil
	}
	token, err := Parse(text)
	if err != nil {
		return "", fmt.Errorf("give a token or its ID, of the form %q: %w", idForm, err)
	}
	return token.ID, nil
}

// Generate returns a new random token.
func Generate() (Token, error) {
	text, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return Token{}, fmt.Errorf("generating a bootstrap token: %w", err)
	}
	return Parse(text)
}

// Check returns every fault in a token's usages and groups.
func (t Token) Check() error {
	var faults []error
	for _, usage := range t.Usages {
		if !slices.Contains(Usages(), usage) {
			faults = append(faults, fmt.Errorf("invalid bootstrap token usage string: %q, valid usage options: %v", usage, Usages()))
		}
	}
	for _, group := range t.Groups {
		if err := bootstraputil.ValidateBootstrapGroupName(group); err != nil {
			faults = append(faults, err)
		}
	}
	if len(t.Groups) > 0 && !slices.Contains(t.Usages, "authentication") {
		faults = append(faults, errors.New("token groups cannot be specified unless --usages includes \"authentication\""))
	}
	return errors.Join(faults...)
}

// secret returns the Secret of a token.
func (t Token) secret() *corev1.Secret {
	data := map[string][]byte{
		bootstrapapi.BootstrapTokenIDKey: []byte(t.ID), bootstrapapi.BootstrapTokenSecretKey: []byte(t.Secret),
	}
	if t.Description != "" {
		data[bootstrapapi.BootstrapTokenDescriptionKey] = []byte(t.Description)
	}
	if !t.Expires.IsZero() {
		data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(t.Expires.UTC().Format(time.RFC3339))
	}
	for _, usage := range t.Usages {
		data[bootstrapapi.BootstrapTokenUsagePrefix+usage] = []byte("true")
	}
	if len(t.Groups) > 0 {
		data[bootstrapapi.BootstrapTokenExtraGroupsKey] = []byte(strings.Join(t.Groups, ","))
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(t.ID)},
		Type:       corev1.SecretTypeBootstrapToken, Data: data,
	}
}

// ofSecret parses a token's Secret.
func ofSecret(secret *corev1.Secret) (Token, error) {
	data := func(key string) string { return bootstrapsecrets.GetData(secret, key) }
	id, part := data(bootstrapapi.BootstrapTokenIDKey), data(bootstrapapi.BootstrapTokenSecretKey)
	token, err := Parse(bootstraputil.TokenFromIDAndSecret(id, part))
	if named, ok := bootstrapsecrets.ParseName(secret.Name); err != nil || !ok || named != token.ID {
		return Token{}, fmt.Errorf("the Secret %s/%s is not a valid bootstrap token: its name, %s and %s do not match", secret.Namespace, secret.Name,
			bootstrapapi.BootstrapTokenIDKey, bootstrapapi.BootstrapTokenSecretKey)
	}
	token.Description = data(bootstrapapi.BootstrapTokenDescriptionKey)
	if text := data(bootstrapapi.BootstrapTokenExpirationKey); text != "" {
		if token.Expires, err = time.Parse(time.RFC3339, text); err != nil {
			return Token{}, fmt.Errorf("the Secret %s/%s is not a valid bootstrap token: it has no valid time in %s",
				secret.Namespace, secret.Name, bootstrapapi.BootstrapTokenExpirationKey)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if usage, ok := strings.CutPrefix(key, bootstrapapi.BootstrapTokenUsagePrefix); ok && data(key) == "true" {
			token.Usages = append(token.Usages, usage)
		}
	}
	if text := data(bootstrapapi.BootstrapTokenExtraGroupsKey); text != "" {
		token.Groups = strings.Split(text, ",")
	}
	return token, nil
}

// Row returns the row of a token in a list, including its secret, as kubeadm's list does.
func (t Token) Row(left func(time.Time) string) []string {
	none := func(text string) string { return cmp.Or(text, "<none>") }
	ttl, expires := "<forever>", "<never>"
	if !t.Expires.IsZero() {
		ttl, expires = left(t.Expires), t.Expires.UTC().Format(time.RFC3339)
	}
	return []string{t.String(), ttl, expires, none(strings.Join(t.Usages, ",")), none(t.Description), none(strings.Join(t.Groups, ","))}
}

// Columns returns the names of Row's columns.
func Columns() []string {
	return []string{"TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"}
}
