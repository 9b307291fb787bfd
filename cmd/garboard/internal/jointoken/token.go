// Package jointoken creates the bootstrap tokens by which nodes join, and the permissions that
// joining requires: Secrets and ClusterRoleBindings with kubeadm's names, so that kubeadm's
// documentation applies.
package jointoken

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// DefaultGroup is the group of the tokens by which nodes join: kubeadm's, which Bind grants the
	// permission to join.
	DefaultGroup = "system:bootstrappers:kubeadm:default-node-token"
	// DefaultTTL is the default validity of a token: long enough to join, and soon useless to a
	// thief.
	DefaultTTL = time.Hour

	idPattern     = `[a-z0-9]{6}`
	secretPattern = `[a-z0-9]{16}`
	groupPattern  = `\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`
	letters       = "abcdefghijklmnopqrstuvwxyz0123456789"

	namePrefix     = "bootstrap-token-"
	idKey          = "token-id"
	secretKey      = "token-secret"
	expirationKey  = "expiration"
	descriptionKey = "description"
	groupsKey      = "auth-extra-groups"
	usagePrefix    = "usage-bootstrap-"
)

// Usages returns the possible usages of a token.
func Usages() []string { return []string{"signing", "authentication"} }

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
func (t Token) String() string { return t.ID + "." + t.Secret }

// Parse parses ID.SECRET.
func Parse(text string) (Token, error) {
	found := regexp.MustCompile(`\A(` + idPattern + `)\.(` + secretPattern + `)\z`).FindStringSubmatch(text)
	if found == nil {
		// The error omits the text, which may be a secret with a typo.
		return Token{}, errors.New("the bootstrap token was not of the form \"" + idPattern + `\.` + secretPattern + `"`)
	}
	return Token{ID: found[1], Secret: found[2]}, nil
}

// ParseID parses the ID of a token, or a whole token.
func ParseID(text string) (string, error) {
	if regexp.MustCompile(`\A` + idPattern + `\z`).MatchString(text) {
		return text, nil
	}
	token, err := Parse(text)
	if err != nil {
		return "", fmt.Errorf("give a token or its ID, of the form %q: %w", idPattern, err)
	}
	return token.ID, nil
}

// Generate returns a new random token.
func Generate() Token { return Token{ID: random(6), Secret: random(16)} }

// random returns n letters and digits, uniformly distributed.
func random(n int) string {
	const even = 256 - 256%len(letters)
	text := make([]byte, 0, n)
	var some [32]byte
	for len(text) < n {
		_, _ = rand.Read(some[:]) // It never fails.
		for _, b := range some {
			if int(b) < even && len(text) < n {
				text = append(text, letters[int(b)%len(letters)])
			}
		}
	}
	return string(text)
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
		if !regexp.MustCompile(groupPattern).MatchString(group) {
			faults = append(faults, fmt.Errorf("bootstrap group %q is invalid (must match %s)", group, groupPattern))
		}
	}
	if len(t.Groups) > 0 && !slices.Contains(t.Usages, "authentication") {
		faults = append(faults, errors.New("token groups cannot be specified unless --usages includes \"authentication\""))
	}
	return errors.Join(faults...)
}

// secret returns the Secret of a token.
func (t Token) secret() *corev1.Secret {
	data := map[string][]byte{idKey: []byte(t.ID), secretKey: []byte(t.Secret)}
	if t.Description != "" {
		data[descriptionKey] = []byte(t.Description)
	}
	if !t.Expires.IsZero() {
		data[expirationKey] = []byte(t.Expires.UTC().Format(time.RFC3339))
	}
	for _, usage := range t.Usages {
		data[usagePrefix+usage] = []byte("true")
	}
	if len(t.Groups) > 0 {
		data[groupsKey] = []byte(strings.Join(t.Groups, ","))
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: namePrefix + t.ID},
		Type:       corev1.SecretTypeBootstrapToken, Data: data,
	}
}

// ofSecret parses a token's Secret.
func ofSecret(secret *corev1.Secret) (Token, error) {
	data := func(key string) string { return string(secret.Data[key]) }
	token, err := Parse(data(idKey) + "." + data(secretKey))
	if err != nil || secret.Name != namePrefix+token.ID {
		return Token{}, fmt.Errorf("the Secret %s/%s is not a valid bootstrap token: its name, %s and %s do not match", secret.Namespace, secret.Name, idKey, secretKey)
	}
	token.Description = data(descriptionKey)
	if text := data(expirationKey); text != "" {
		if token.Expires, err = time.Parse(time.RFC3339, text); err != nil {
			return Token{}, fmt.Errorf("the Secret %s/%s is not a valid bootstrap token: it has no valid time in %s", secret.Namespace, secret.Name, expirationKey)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if usage, ok := strings.CutPrefix(key, usagePrefix); ok && data(key) == "true" {
			token.Usages = append(token.Usages, usage)
		}
	}
	if text := data(groupsKey); text != "" {
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
