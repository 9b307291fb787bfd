package authn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Keys of User.Extra and prefixes of names, as in Kubernetes.
const (
	ExtraPodName        = "authentication.kubernetes.io/pod-name"
	ExtraPodUID         = "authentication.kubernetes.io/pod-uid"
	ExtraNodeName       = "authentication.kubernetes.io/node-name"
	ExtraNodeUID        = "authentication.kubernetes.io/node-uid"
	ExtraCredentialID   = "authentication.kubernetes.io/credential-id"
	ServiceAccountUser  = "system:serviceaccount:"
	serviceAccountGroup = GroupServiceAccounts + ":"
)

// leeway is the tolerated difference between the clocks of a token's issuer and verifier. It is
// also how long a token outlives the deletion of an object that finalizers keep. It is Kubernetes'
// value.
const leeway = jwt.DefaultLeeway

// errInvalidated reports that an object to which a token is bound is gone.
var errInvalidated = errors.New("service account token has been invalidated")

// Reference names an object in a token's claims.
type Reference struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
}

// Bound is what a token is bound to: its service account, and the objects that must exist for the
// token to be valid. These are the private claims of Kubernetes' tokens.
type Bound struct {
	Namespace      string           `json:"namespace,omitempty"`
	ServiceAccount Reference        `json:"serviceaccount,omitzero"`
	Pod            *Reference       `json:"pod,omitempty"`
	Secret         *Reference       `json:"secret,omitempty"`
	Node           *Reference       `json:"node,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

// InSecret are the private claims of a token that is kept in a Secret, in Kubernetes' format.
type InSecret struct {
	SecretNamespace string    `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	SecretName      string    `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	AccountName     string    `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	AccountUID      types.UID `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}

// claims are all claims of a token.
type claims struct {
	jwt.Claims
	InSecret
	Kubernetes Bound `json:"kubernetes.io,omitzero"`
}

// Objects reads the objects that tokens are bound to. Its errors are the API's.
type Objects interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
}

// checkTime returns an error unless the token is valid at now, within leeway.
func (c *claims) checkTime(now time.Time) error {
	switch err := c.ValidateWithLeeway(jwt.Expected{Time: now}, leeway); {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	default:
		return fmt.Errorf("service account token claims could not be validated: %w", err)
	}
}

// check returns an error if the token's service account, pod, secret or node is gone or was
// replaced. The node claim of a token that is bound to a pod is not checked, as in Kubernetes.
func (b Bound) check(ctx context.Context, objects Objects, now time.Time) error {
	account, err := objects.ServiceAccount(ctx, b.Namespace, b.ServiceAccount.Name)
	if err != nil {
		return err
	}
	if account.UID != b.ServiceAccount.UID {
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", account.UID, b.ServiceAccount.UID)
	}
	if longDeleted(account, now) {
		return fmt.Errorf("service account %s/%s has been deleted", b.Namespace, b.ServiceAccount.Name)
	}
	if b.Secret != nil {
		secret, err := objects.Secret(ctx, b.Namespace, b.Secret.Name)
		if err := checkRef("secret", secret, err, b.Secret, now); err != nil {
			return err
		}
	}
	if b.Pod != nil {
		pod, err := objects.Pod(ctx, b.Namespace, b.Pod.Name)
		return checkRef("pod", pod, err, b.Pod, now)
	}
	if b.Node != nil {
		node, err := objects.Node(ctx, b.Node.Name)
		return checkRef("node", node, err, b.Node, now)
	}
	return nil
}

// checkRef returns an error if reading the object failed with err, its UID differs from ref, or it
// was deleted longer than leeway ago.
func checkRef(what string, obj metav1.Object, err error, ref *Reference, now time.Time) error {
	if err != nil {
		return errInvalidated
	}
	if uid := obj.GetUID(); uid != ref.UID {
		return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", what, uid, what, ref.UID)
	}
	if longDeleted(obj, now) {
		return errInvalidated
	}
	return nil
}

func longDeleted(obj metav1.Object, now time.Time) bool {
	deleted := obj.GetDeletionTimestamp()
	return deleted != nil && deleted.Time.Before(now.Add(-leeway))
}

// user returns the user that the claims name.
func (c *claims) user() User {
	bound := c.Kubernetes
	user := User{
		Name: ServiceAccountUser + bound.Namespace + ":" + bound.ServiceAccount.Name, UID: string(bound.ServiceAccount.UID),
		Groups: ServiceAccountGroups(bound.Namespace), Extra: map[string][]string{},
	}
	if bound.Pod != nil {
		user.Extra[ExtraPodName], user.Extra[ExtraPodUID] = []string{bound.Pod.Name}, []string{string(bound.Pod.UID)}
	}
	if c.ID != "" {
		user.Extra[ExtraCredentialID] = []string{CredentialID(c.ID)}
	}
	if bound.Node != nil {
		user.Extra[ExtraNodeName] = []string{bound.Node.Name}
		if bound.Node.UID != "" {
			user.Extra[ExtraNodeUID] = []string{string(bound.Node.UID)}
		}
	}
	return user
}

// ServiceAccountGroups returns the groups of the service accounts of a namespace.
func ServiceAccountGroups(namespace string) []string {
	return []string{GroupServiceAccounts, serviceAccountGroup + namespace}
}

// CredentialID returns the audit log's name for the token with the given "jti" claim.
func CredentialID(id string) string { return "JTI=" + id }
