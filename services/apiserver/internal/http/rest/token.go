package rest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// Bounds of the lifetime of a service account token, Kubernetes' own.
const (
	defaultTokenSeconds = 3600
	minTokenSeconds     = 600
	maxTokenSeconds     = 1 << 32
)

// issuedNote is the audit annotation that names the issued token.
const issuedNote = "authentication.kubernetes.io/issued-credential-id"

// token serves the token subresource: it issues a service account token.
func (c *call) token() error {
	format, err := c.Answers.Negotiate(c.r)
	if err != nil {
		return err
	}
	var opts metav1.CreateOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	if errs := metav1validation.ValidateCreateOptions(&opts); len(errs) > 0 {
		return apierrors.NewInvalid(metaKind("CreateOptions"), "", errs)
	}
	req, typed := &authenticationv1.TokenRequest{}, &authenticationv1.TokenRequest{}
	typed.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	if err := c.readInto(typed, req, opts.FieldValidation); err != nil {
		return err
	}
	if err := c.checkTokenName(req); err != nil {
		return err
	}
	account, err := c.resource.Get(c.ctx(), c.req.Namespace, c.req.Name)
	if err != nil {
		return err
	}
	if err := c.resource.Admit(c.ctx(), c.req.Namespace, c.req.Name, "token", req, registry.IsDryRun(opts.DryRun)); err != nil {
		return err
	}
	if err := checkTokenRequest(req); err != nil {
		return err
	}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = c.Tokens.Audiences()
	}
	bound, err := c.bound(account, req.Spec.BoundObjectRef)
	if err != nil {
		return err
	}
	life := time.Duration(*req.Spec.ExpirationSeconds) * time.Second
	if longest := c.Tokens.MaxLife(); longest > 0 && life > longest {
		seconds := int64(longest / time.Second)
		warn(c.w, []string{fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *req.Spec.ExpirationSeconds, seconds)})
		life, req.Spec.ExpirationSeconds = longest, &seconds
	}
	issued, err := c.Tokens.Issue(bound, req.Spec.Audiences, life)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	audit.From(c.ctx()).Annotate(issuedNote, authn.CredentialID(issued.ID))
	req.Name, req.Namespace = c.req.Name, c.req.Namespace
	req.CreationTimestamp = metav1.Now().Rfc3339Copy()
	req.Status = authenticationv1.TokenRequestStatus{
		Token: issued.Token, ExpirationTimestamp: metav1.NewTime(issued.Expires).Rfc3339Copy(),
	}
	c.Answers.Object(c.w, c.r, http.StatusCreated, format, req)
	return nil
}

// checkTokenName refuses a request that names another service account than its path.
func (c *call) checkTokenName(req *authenticationv1.TokenRequest) error {
	if req.Namespace != "" && req.Namespace != c.req.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if req.Name == "" || req.Name == c.req.Name {
		return nil
	}
	return apierrors.NewInvalid(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind(), c.req.Name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", "name"), req.Name, "must match the service account name if specified"),
	})
}

func checkTokenRequest(req *authenticationv1.TokenRequest) error {
	if req.Spec.ExpirationSeconds == nil {
		seconds := int64(defaultTokenSeconds)
		req.Spec.ExpirationSeconds = &seconds
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "expirationSeconds")
	switch seconds := *req.Spec.ExpirationSeconds; {
	case seconds < minTokenSeconds:
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration less than 10 minutes"))
	case seconds > maxTokenSeconds:
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind(), "", errs)
	}
	return nil
}

// bound returns the claims of a token of account that is bound to ref.
func (c *call) bound(account scheme.Object, ref *authenticationv1.BoundObjectReference) (authn.Bound, error) {
	bound := authn.Bound{
		Namespace:      account.GetNamespace(),
		ServiceAccount: authn.Reference{Name: account.GetName(), UID: account.GetUID()},
	}
	if ref == nil {
		return bound, nil
	}
	switch gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind); gvk {
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		pod, err := find[*corev1.Pod](c, account.GetNamespace(), ref.Name, ref.UID)
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
		node, err := find[*corev1.Node](c, "", pod.Spec.NodeName, "")
		if err == nil {
			bound.Node.UID = node.UID
		} else if !apierrors.IsNotFound(err) {
			return bound, err
		}
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		secret, err := find[*corev1.Secret](c, account.GetNamespace(), ref.Name, ref.UID)
		if err != nil {
			return bound, err
		}
		bound.Secret = &authn.Reference{Name: secret.Name, UID: secret.UID}
	case corev1.SchemeGroupVersion.WithKind("Node"):
		node, err := find[*corev1.Node](c, "", ref.Name, ref.UID)
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
func find[T scheme.Object](c *call, namespace, name string, uid types.UID) (T, error) {
	var none T
	kind := scheme.For[T](c.table)
	obj, err := c.Registry.Resource(kind).Get(c.ctx(), namespace, name)
	if err != nil {
		return none, err
	}
	found, ok := obj.(T)
	if !ok {
		return none, apierrors.NewInternalError(errors.New("the registry returned an object of another type"))
	}
	if uid != "" && uid != obj.GetUID() {
		return none, apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, name, fmt.Errorf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", uid))
	}
	return found, nil
}
