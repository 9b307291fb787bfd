// Package token serves the token subresource of service accounts: it issues tokens, which it does not
// store.
package token

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// Bounds of the lifetime of a token, Kubernetes' own.
const (
	defaultSeconds = 3600
	minSeconds     = 600
	maxSeconds     = 1 << 32
)

// issuedNote is the audit annotation that names the issued token.
const issuedNote = "authentication.kubernetes.io/issued-credential-id"

// kind is what requests and responses hold.
var kind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// Issuer issues the tokens of Accounts. Registry has the objects to which they are bound.
type Issuer struct {
	Table    *scheme.Table
	Registry *registry.Registry
	Accounts *authn.ServiceAccounts
}

// Serve serves the token subresource of a service account.
func (i Issuer) Serve(c *rest.Call) error {
	// Another kind may have a subresource of this name.
	if of := c.Resource().Kind(); of != scheme.For[*corev1.ServiceAccount](i.Table) {
		return apierrors.NewMethodNotSupported(of.GroupResource(), "create")
	}
	format, err := c.Negotiate()
	if err != nil {
		return err
	}
	opts, err := c.CreateOptions()
	if err != nil {
		return err
	}
	req, at := &authenticationv1.TokenRequest{}, c.Request()
	req.SetGroupVersionKind(kind)
	if err := c.Read(req, opts.FieldValidation); err != nil {
		return err
	}
	if err := checkName(req, at.Namespace, at.Name); err != nil {
		return err
	}
	account, err := c.Resource().Get(c.Context(), at.Namespace, at.Name)
	if err != nil {
		return err
	}
	if req.UID != "" && req.UID != account.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, at.Name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID, account.GetUID()))
	}
	if err := c.Resource().Admit(c.Context(), admission.Create, at.Namespace, at.Name, at.Subresource, req, registry.IsDryRun(opts.DryRun)); err != nil {
		return err
	}
	if err := check(req); err != nil {
		return err
	}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = i.Accounts.Audiences()
	}
	bound, err := i.bound(c.Context(), account, req.Spec.BoundObjectRef)
	if err != nil {
		return err
	}
	life := time.Duration(*req.Spec.ExpirationSeconds) * time.Second
	if longest := i.Accounts.MaxLife(); longest > 0 && life > longest {
		seconds := int64(longest / time.Second)
		c.Warn(fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *req.Spec.ExpirationSeconds, seconds))
		life, req.Spec.ExpirationSeconds = longest, &seconds
	}
	issued, err := i.Accounts.Issue(c.Context(), bound, req.Spec.Audiences, life)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	audit.From(c.Context()).Annotate(issuedNote, authn.CredentialID(issued.ID))
	req.Name, req.Namespace = at.Name, at.Namespace
	req.CreationTimestamp = metav1.Now().Rfc3339Copy()
	req.Status = authenticationv1.TokenRequestStatus{
		Token: issued.Token, ExpirationTimestamp: metav1.NewTime(issued.Expires).Rfc3339Copy(),
	}
	return c.Send(http.StatusCreated, format, req)
}

// checkName refuses a request that names another service account than its path.
func checkName(req *authenticationv1.TokenRequest, namespace, name string) error {
	if req.Namespace != "" && req.Namespace != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if req.Name == "" || req.Name == name {
		return nil
	}
	return apierrors.NewInvalid(kind.GroupKind(), name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", "name"), req.Name, "must match the service account name if specified"),
	})
}

// check sets the lifetime if the request has none, and returns an error if it is out of bounds.
func check(req *authenticationv1.TokenRequest) error {
	if req.Spec.ExpirationSeconds == nil {
		seconds := int64(defaultSeconds)
		req.Spec.ExpirationSeconds = &seconds
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "expirationSeconds")
	switch seconds := *req.Spec.ExpirationSeconds; {
	case seconds < minSeconds:
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration less than 10 minutes"))
	case seconds > maxSeconds:
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(kind.GroupKind(), "", errs)
	}
	return nil
}

// bound returns the claims of a token of account that is bound to ref.
func (i Issuer) bound(ctx context.Context, account scheme.Object, ref *authenticationv1.BoundObjectReference) (authn.Bound, error) {
	bound := authn.Bound{
		Namespace:      account.GetNamespace(),
		ServiceAccount: authn.Reference{Name: account.GetName(), UID: account.GetUID()},
	}
	if ref == nil {
		return bound, nil
	}
	switch gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind); gvk {
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		pod, err := find[*corev1.Pod](ctx, i, account.GetNamespace(), ref.Name, ref.UID)
		if err != nil {
			return bound, err
		}
		if pod.Spec.ServiceAccountName != account.GetName() {
			return bound, apierrors.NewBadRequest(fmt.Sprintf(
				"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.GetName()))
		}
		bound.Pod = &authn.Reference{Name: pod.Name, UID: pod.UID}
		if pod.Spec.NodeName == "" {
			return bound, nil
		}
		bound.Node = &authn.Reference{Name: pod.Spec.NodeName}
		node, err := find[*corev1.Node](ctx, i, "", pod.Spec.NodeName, "")
		if err == nil {
			bound.Node.UID = node.UID
		} else if !apierrors.IsNotFound(err) {
			return bound, err
		}
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		secret, err := find[*corev1.Secret](ctx, i, account.GetNamespace(), ref.Name, ref.UID)
		if err != nil {
			return bound, err
		}
		bound.Secret = &authn.Reference{Name: secret.Name, UID: secret.UID}
	case corev1.SchemeGroupVersion.WithKind("Node"):
		node, err := find[*corev1.Node](ctx, i, "", ref.Name, ref.UID)
		if err != nil {
			return bound, err
		}
		bound.Node = &authn.Reference{Name: node.Name, UID: node.UID}
	default:
		return bound, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	return bound, nil
}

// find reads the object that a token is to be bound to. Its UID must be uid, unless uid is empty.
func find[T scheme.Object](ctx context.Context, i Issuer, namespace, name string, uid types.UID) (T, error) {
	var none T
	of := scheme.For[T](i.Table)
	obj, err := i.Registry.Resource(of).Get(ctx, namespace, name)
	if err != nil {
		return none, err
	}
	found, ok := obj.(T)
	if !ok {
		return none, apierrors.NewInternalError(errors.New("the registry returned an object of another type"))
	}
	if uid != "" && uid != obj.GetUID() {
		return none, apierrors.NewConflict(schema.GroupResource{Group: of.Group, Resource: of.Kind}, name, fmt.Errorf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", uid))
	}
	return found, nil
}
