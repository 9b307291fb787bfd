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

// leeway is how far the clocks of those who write and read a token may be apart; it is also how
// long a token outlives the deletion of an object that is kept by finalizers. Kubernetes' value.
const leeway = jwt.DefaultLeeway

// errInvalidated says that an object to which a token is bound is gone.
var errInvalidated = errors.New("service account token has been invalidated")

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

// claims are all that a token says.
type claims struct {
	jwt.Claims
	Kubernetes Bound `json:"kubernetes.io,omitzero"`
}

// Objects reads what tokens are bound to. Its errors are the API's.
type Objects interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
}

// checkTime refuses a token outside its time.
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

// check refuses a token whose service account, pod, secret or node is gone or another one. The
// node of a token that is bound to a pod is only told, not checked, as in Kubernetes.
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

// checkRef refuses an object that could not be read with err, is another one than ref says, or
// was deleted long ago.
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

// user is whom the claims speak of.
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

// ServiceAccountGroups are the groups of the service accounts of a namespace.
func ServiceAccountGroups(namespace string) []string {
	return []string{GroupServiceAccounts, serviceAccountGroup + namespace}
}

// CredentialID names a token in the audit log, by its "jti" claim.
func CredentialID(id string) string { return "JTI=" + id }
