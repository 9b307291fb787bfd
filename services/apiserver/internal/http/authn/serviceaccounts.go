package authn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/libs/tokenkey"
)

// ServiceAccountsConfig configures how service account tokens are issued and verified.
type ServiceAccountsConfig struct {
	// Issuers are the accepted values of the "iss" claim. New tokens get the first. At least one is
	// required.
	Issuers []string
	// Keys sign new tokens and verify all. Required.
	Keys TokenKeys
	// Audiences are the API's own; the issuers if empty.
	Audiences []string
	// MaxLife bounds the lifetime that a token request may ask for; no bound if 0.
	MaxLife time.Duration
	// MaxExtendedLife bounds the extended lifetime of tokens that pods mount; no bound if 0.
	MaxExtendedLife time.Duration
	// NoExtension turns off the extended lifetime of tokens that pods mount. Otherwise such tokens
	// are valid for a year, with a warning in the audit log when they are used after the requested
	// lifetime.
	NoExtension bool
	// Objects reads the objects that tokens are bound to.
	Objects Objects
}

// ServiceAccounts issues and verifies service account tokens, which are JWTs. SecretTokens verifies
// those in Secrets.
type ServiceAccounts struct {
	cfg  ServiceAccountsConfig
	read *signatures
	now  func() time.Time
}

// NewServiceAccounts returns the issuer and verifier of tokens.
func NewServiceAccounts(cfg ServiceAccountsConfig) (*ServiceAccounts, error) {
	if len(cfg.Issuers) == 0 {
		return nil, errors.New("no issuer of service account tokens is set")
	}
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = cfg.Issuers
	}
	return &ServiceAccounts{cfg: cfg, read: newSignatures(), now: time.Now}, nil
}

// Published returns the public keys with which other programs verify tokens, and for how long they may
// remember them.
func (s *ServiceAccounts) Published() ([]tokenkey.Public, time.Duration) {
	return s.cfg.Keys.Published()
}

// Audiences returns the API's audiences, which tokens get unless a request names others.
func (s *ServiceAccounts) Audiences() []string { return slices.Clone(s.cfg.Audiences) }

// MaxLife returns the bound on the lifetime that a token request may ask for; no bound if 0.
func (s *ServiceAccounts) MaxLife() time.Duration { return s.cfg.MaxLife }

// Issued is a new token.
type Issued struct {
	Token string
	// ID is its "jti" claim.
	ID string
	// Expires is when the token should be replaced, at the end of the requested lifetime. The token
	// itself may be valid for longer.
	Expires time.Time
}

// podTokenLife is the lifetime that kube-api-access volumes request, and by which such tokens are
// recognized. extendedLife is how long they are really valid, so that programs which don't read the
// token again keep working. Both are Kubernetes' values.
const (
	podTokenLife  = (60*60 + 7) * time.Second
	extendedLife  = 365 * 24 * time.Hour
	staleTokenKey = "authentication.k8s.io/stale-token"
)

// Issue signs a token for what bound names, with the given audiences, to be replaced after life.
func (s *ServiceAccounts) Issue(ctx context.Context, bound Bound, audiences []string, life time.Duration) (Issued, error) {
	if len(audiences) == 0 {
		audiences = s.cfg.Audiences
	}
	now := s.now()
	issued := Issued{ID: string(uuid.NewUUID()), Expires: now.Add(life)}
	if !s.cfg.NoExtension && bound.Pod != nil && life == podTokenLife && len(audienceless(s.cfg.Audiences, audiences)) == len(audiences) {
		bound.WarnAfter = jwt.NewNumericDate(issued.Expires)
		life = extendedLife
		if longest := s.cfg.MaxExtendedLife; longest > 0 {
			life = min(life, longest)
		}
	}
	payload, err := json.Marshal(struct {
		claims
		// Kubernetes writes a list even for one audience; jwt.Audience would encode a string.
		Audiences []string `json:"aud"`
	}{claims{Claims: jwt.Claims{
		Issuer: s.cfg.Issuers[0], Subject: ServiceAccountUser + bound.Namespace + ":" + bound.ServiceAccount.Name, ID: issued.ID,
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(life)),
	}, Kubernetes: bound}, audiences})
	if err != nil {
		return Issued{}, fmt.Errorf("encoding the claims of a service account token: %w", err)
	}
	issued.Token, err = s.cfg.Keys.Sign(ctx, payload)
	return issued, err
}

// Token returns the user of a token. It returns false without an error if the token is not a JWT of
// these issuers.
func (s *ServiceAccounts) Token(ctx context.Context, token string, audiences []string) (Result, bool, error) {
	c, err := s.verified(ctx, token, s.cfg.Issuers)
	if c == nil || err != nil {
		return Result{}, false, err
	}
	both, err := s.audiences(c, audiences)
	if err != nil {
		return Result{}, false, err
	}
	now := s.now()
	if err := c.checkTime(now); err != nil {
		return Result{}, false, err
	}
	if err := c.Kubernetes.check(ctx, s.cfg.Objects, now); err != nil {
		return Result{}, false, err
	}
	result := Result{User: c.user(), Audiences: both}
	if warn := c.Kubernetes.WarnAfter; warn != nil && *warn != 0 && now.After(warn.Time()) {
		result.Annotations = map[string]string{staleTokenKey: fmt.Sprintf(
			"subject: %s, seconds after warning threshold: %d", c.Subject, now.Unix()-warn.Time().Unix())}
	}
	return result, true, nil
}

// audiences returns for which of the asked audiences a token is meant.
func (s *ServiceAccounts) audiences(c *claims, asked []string) ([]string, error) {
	meant := []string(c.Audience)
	if len(meant) == 0 {
		meant = s.cfg.Audiences // A token without audiences is for the API.
	}
	both := audienceless(meant, asked)
	if len(both) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", meant, asked)
	}
	return both, nil
}

// verified returns the claims of a token with a valid signature, or nil without an error if the
// token is not a JWT of the issuers. It doesn't check the token's validity period.
func (s *ServiceAccounts) verified(ctx context.Context, token string, issuers []string) (*claims, error) {
	// Asked before the keys, so that what is verified with a key that is withdrawn meanwhile is forgotten.
	generation := s.cfg.Keys.Generation()
	if c := s.read.find(token, generation); c != nil && slices.Contains(issuers, c.Issuer) {
		return c, nil
	}
	if !slices.Contains(issuers, issuerOf(token)) {
		return nil, nil //nolint:nilnil // Another kind of token is not an error.
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.RS256})
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // As above.
	}
	id := ""
	for _, header := range parsed.Headers {
		if id = header.KeyID; id != "" {
			break
		}
	}
	keys, err := s.cfg.Keys.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, key := range keys {
		var c claims
		if err := parsed.Claims(key.Key, &c); err != nil {
			errs = append(errs, err)
			continue
		}
		if !slices.Contains(issuers, c.Issuer) {
			return nil, fmt.Errorf("token issuer %q is invalid", c.Issuer)
		}
		s.read.keep(token, &c, generation)
		return &c, nil
	}
	if len(keys) == 0 {
		return nil, errors.New("invalid signature, no keys found")
	}
	return nil, utilerrors.NewAggregate(errs)
}

// issuerOf reads the issuer of a JWT in compact form without verifying it.
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &c) != nil {
		return ""
	}
	return c.Issuer
}
