package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Keys of User.Extra and prefixes of names, as Kubernetes has them.
const (
	ExtraPodName        = "authentication.kubernetes.io/pod-name"
	ExtraPodUID         = "authentication.kubernetes.io/pod-uid"
	ExtraNodeName       = "authentication.kubernetes.io/node-name"
	ExtraNodeUID        = "authentication.kubernetes.io/node-uid"
	ExtraCredentialID   = "authentication.kubernetes.io/credential-id"
	ServiceAccountUser  = "system:serviceaccount:"
	serviceAccountGroup = GroupServiceAccounts + ":"
)

// leeway is how far the clocks of those who write and read a token may be apart.
const leeway = time.Minute

// ErrInvalidToken says that a token is one of ours, or looks like one, but is not valid.
var ErrInvalidToken = errors.New("invalid bearer token")

// Reference names an object that a token speaks of.
type Reference struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
}

// Bound is what a token is bound to: its service account, and what must exist as long as the
// token is to be valid. These are the private claims of Kubernetes' tokens.
type Bound struct {
	Namespace      string           `json:"namespace,omitempty"`
	ServiceAccount Reference        `json:"serviceaccount,omitzero"`
	Pod            *Reference       `json:"pod,omitempty"`
	Secret         *Reference       `json:"secret,omitempty"`
	Node           *Reference       `json:"node,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

type privateClaims struct {
	Kubernetes Bound `json:"kubernetes.io,omitzero"`
}

// Objects reads what tokens are bound to. Its errors are the API's; a NotFound ends a token.
type Objects interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
}

// ServiceAccounts issues and verifies the tokens of service accounts: JWTs signed by ES256.
type ServiceAccounts struct {
	issuer  string
	signer  jose.Signer
	key     *ecdsa.PrivateKey
	objects Objects
	now     func() time.Time
}

// NewServiceAccounts makes the issuer of tokens of the given "iss", signed by key.
func NewServiceAccounts(issuer string, key *ecdsa.PrivateKey, objects Objects) (*ServiceAccounts, error) {
	id, err := keyID(key)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("making the signer of service account tokens: %w", err)
	}
	return &ServiceAccounts{issuer: issuer, signer: signer, key: key, objects: objects, now: time.Now}, nil
}

// keyID names a key by the digest of its public part, so that all apiservers name it alike.
func keyID(key *ecdsa.PrivateKey) (string, error) {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return "", fmt.Errorf("reading the key of service account tokens: %w", err)
	}
	digest := sha256.Sum256(point)
	return base64.RawURLEncoding.EncodeToString(digest[:]), nil
}

// Issue makes a token for what bound names, valid for the given time from now. Without
// audiences it is for the API itself.
func (s *ServiceAccounts) Issue(bound Bound, audiences []string, life time.Duration) (token string, expires time.Time, err error) {
	now := s.now()
	expires = now.Add(life)
	if len(audiences) == 0 {
		audiences = []string{s.issuer}
	}
	token, err = jwt.Signed(s.signer).Claims(jwt.Claims{
		Issuer: s.issuer, Subject: ServiceAccountUser + bound.Namespace + ":" + bound.ServiceAccount.Name,
		ID:       string(uuid.NewUUID()),
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
	}).Claims(privateClaims{Kubernetes: bound}).
		// A list even of one, as Kubernetes writes it; jwt.Audience would make that a string.
		Claims(map[string]any{"aud": audiences}).Serialize()
	if err != nil {
		return "", time.Time{}, fmt.Errorf("signing a service account token: %w", err)
	}
	return token, expires, nil
}

// Audience is the audience of tokens for the API itself.
func (s *ServiceAccounts) Audience() string { return s.issuer }

// Verify finds the user of a token; false if the token is no JWT of this issuer. The error
// wraps ErrInvalidToken when it is one that is not valid, or no longer.
func (s *ServiceAccounts) Verify(ctx context.Context, token string) (User, bool, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return User{}, false, nil //nolint:nilerr // It is another kind of token.
	}
	var claims jwt.Claims
	var private privateClaims
	if err := parsed.Claims(s.key.Public(), &claims, &private); err != nil {
		return User{}, true, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	if claims.Issuer != s.issuer {
		return User{}, false, nil
	}
	err = claims.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{s.issuer}, Time: s.now()}, leeway)
	if err != nil {
		return User{}, true, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	bound := private.Kubernetes
	if claims.Subject != ServiceAccountUser+bound.Namespace+":"+bound.ServiceAccount.Name {
		return User{}, true, fmt.Errorf("%w: its subject is not its service account", ErrInvalidToken)
	}
	if err := s.checkBound(ctx, bound); err != nil {
		return User{}, true, err
	}
	user := User{
		Name: claims.Subject, UID: string(bound.ServiceAccount.UID),
		Groups: []string{GroupServiceAccounts, serviceAccountGroup + bound.Namespace},
		Extra:  map[string][]string{ExtraCredentialID: {"JTI=" + claims.ID}},
	}
	if bound.Pod != nil {
		user.Extra[ExtraPodName], user.Extra[ExtraPodUID] = []string{bound.Pod.Name}, []string{string(bound.Pod.UID)}
	}
	if bound.Node != nil {
		user.Extra[ExtraNodeName] = []string{bound.Node.Name}
		if bound.Node.UID != "" {
			user.Extra[ExtraNodeUID] = []string{string(bound.Node.UID)}
		}
	}
	return user, true, nil
}

// checkBound refuses a token whose service account, pod, secret or node is gone.
func (s *ServiceAccounts) checkBound(ctx context.Context, bound Bound) error {
	account, err := s.objects.ServiceAccount(ctx, bound.Namespace, bound.ServiceAccount.Name)
	if err != nil {
		return invalid("service account", err)
	}
	if account.UID != bound.ServiceAccount.UID {
		return fmt.Errorf("%w: the service account was deleted and made anew", ErrInvalidToken)
	}
	if bound.Pod != nil {
		pod, err := s.objects.Pod(ctx, bound.Namespace, bound.Pod.Name)
		if err != nil {
			return invalid("pod", err)
		}
		if pod.UID != bound.Pod.UID {
			return fmt.Errorf("%w: the pod is another one now", ErrInvalidToken)
		}
	}
	if bound.Secret != nil {
		secret, err := s.objects.Secret(ctx, bound.Namespace, bound.Secret.Name)
		if err != nil {
			return invalid("secret", err)
		}
		if secret.UID != bound.Secret.UID {
			return fmt.Errorf("%w: the secret is another one now", ErrInvalidToken)
		}
	}
	return nil
}

func invalid(what string, err error) error {
	return fmt.Errorf("%w: reading its %s: %w", ErrInvalidToken, what, err)
}
