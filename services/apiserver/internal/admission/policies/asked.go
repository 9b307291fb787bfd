package policies

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	k8sauthorizer "k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// asked is one request with what policies need of it, each made when it is first needed.
type asked struct {
	engine *engine
	req    *admission.Request
	attr   k8sadmission.Attributes
	forms  forms
	authz  k8sauthorizer.UnconditionalAuthorizer

	namespaceRead bool
	in            *corev1.Namespace
}

// matches reports whether a policy matches the request, in which form, and with parameters of which
// kind, which is nil if it has none.
func (r *asked) matches(ctx context.Context, d *definition) (form matched, paramKind *scheme.Kind, ok bool, err error) {
	form, ok, err = r.engine.match(ctx, d.match, r.req, r.attr)
	if err != nil || !ok {
		return matched{}, nil, false, err
	}
	paramKind, err = r.engine.paramKind(d.paramKind)
	return form, paramKind, err == nil, err
}

// questions returns what a policy is evaluated for under a binding, without the namespace: nothing if the
// binding does not match.
func (r *asked) questions(ctx context.Context, form matched, paramKind *scheme.Kind, b *binding) ([]question, error) {
	_, ok, err := r.engine.match(ctx, b.match, r.req, r.attr)
	if err != nil || !ok {
		return nil, err
	}
	params, err := r.engine.params(ctx, paramKind, b.paramRef, r.attr.GetNamespace())
	if err != nil || len(params) == 0 {
		return nil, err
	}
	attr, err := r.forms.as(form.kind)
	if err != nil {
		return nil, fmt.Errorf("failed to convert object version: %w", err)
	}
	questions := make([]question, len(params))
	for i, param := range params {
		questions[i] = question{form: form, attr: attr, param: param, authz: r.authz}
	}
	return questions, nil
}

// namespace returns the namespace of the request's object, as expressions see it.
func (r *asked) namespace(ctx context.Context) (*corev1.Namespace, error) {
	if !r.namespaceRead {
		in, err := r.engine.namespaceObject(ctx, r.attr)
		if err != nil {
			return nil, err
		}
		r.in, r.namespaceRead = in, true
	}
	return r.in, nil
}
