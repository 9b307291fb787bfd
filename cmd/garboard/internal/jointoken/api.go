package jointoken

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/garboard/garboard/libs/client"
)

// tries bounds the attempts of a write that conflicts with other writers.
const tries = 5

// Put creates a token's Secret. It updates an existing one with the same secret part to match
// token, which extends its expiry; one with another secret part is an error.
func Put(ctx context.Context, api client.Interface, token Token) error {
	secrets, want := client.Of[*corev1.Secret](api), token.secret()
	return again(func() error {
		have, err := secrets.Get(ctx, want.Namespace, want.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = secrets.Create(ctx, want, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		if have.Type != corev1.SecretTypeBootstrapToken || string(have.Data[bootstrapapi.BootstrapTokenSecretKey]) != token.Secret {
			return fmt.Errorf("a token with id %q already exists, and has another secret part: delete it with `garboard token delete %s`, or choose another", token.ID, token.ID)
		}
		if maps.EqualFunc(have.Data, want.Data, func(a, b []byte) bool { return string(a) == string(b) }) {
			return nil
		}
		have.Data = want.Data
		_, err = secrets.Update(ctx, have, metav1.UpdateOptions{})
		return err
	}, "creating the bootstrap token "+token.ID)
}

// again repeats do when another writer interfered.
func again(do func() error, what string) error {
	var err error
	for range tries {
		if err = do(); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// List returns the tokens, and the faults of Secrets that should be tokens.
func List(ctx context.Context, api client.Interface) (tokens []Token, faults []error, err error) {
	secrets, _, err := client.Of[*corev1.Secret](api).List(ctx, metav1.NamespaceSystem, metav1.ListOptions{
		FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listing the bootstrap tokens: %w", err)
	}
	for _, secret := range secrets {
		token, err := ofSecret(secret)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		tokens = append(tokens, token)
	}
	slices.SortFunc(tokens, func(a, b Token) int { return strings.Compare(a.ID, b.ID) })
	return tokens, faults, nil
}

// Delete deletes a token.
func Delete(ctx context.Context, api client.Interface, id string) error {
	secrets, name := client.Of[*corev1.Secret](api), bootstraputil.BootstrapTokenSecretName(id)
	if err := secrets.Delete(ctx, metav1.NamespaceSystem, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the bootstrap token %q: %w", id, err)
	}
	return nil
}

// binding is a ClusterRoleBinding that allows nodes to join.
type binding struct{ name, role, group string }

// bindings allow nodes with a token to request certificates, and make the controllers approve those
// requests and the requests of nodes that already have a certificate.
func bindings() []binding {
	const requests = "system:certificates.k8s.io:certificatesigningrequests:"
	return []binding{
		{"kubeadm:kubelet-bootstrap", "system:node-bootstrapper", DefaultGroup},
		{"kubeadm:node-autoapprove-bootstrap", requests + "nodeclient", DefaultGroup},
		{"kubeadm:node-autoapprove-certificate-rotation", requests + "selfnodeclient", "system:nodes"},
	}
}

// Bind creates the ClusterRoleBindings by which nodes with a token of DefaultGroup may join, and
// adds missing subjects to existing ones.
func Bind(ctx context.Context, api client.Interface) error {
	all := client.Of[*rbacv1.ClusterRoleBinding](api)
	for _, b := range bindings() {
		role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role}
		subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.group}
		err := again(func() error {
			have, err := all.Get(ctx, "", b.name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				_, err = all.Create(ctx, &rbacv1.ClusterRoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: b.name}, RoleRef: role, Subjects: []rbacv1.Subject{subject},
				}, metav1.CreateOptions{})
				return err
			}
			if err != nil {
				return err
			}
			if have.RoleRef != role {
				return fmt.Errorf("it exists and refers to the %s %s: delete it, since the role cannot be changed", have.RoleRef.Kind, have.RoleRef.Name)
			}
			if slices.Contains(have.Subjects, subject) {
				return nil
			}
			have.Subjects = append(have.Subjects, subject)
			_, err = all.Update(ctx, have, metav1.UpdateOptions{})
			return err
		}, "creating the ClusterRoleBinding "+b.name)
		if err != nil {
			return err
		}
	}
	return nil
}
