package policies

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	cachingauthorizer "k8s.io/apiserver/pkg/admission/plugin/authorizer"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// mutating is the plugin MutatingAdmissionPolicy.
type mutating struct {
	*engine
	source *source[*admissionregistrationv1.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicyBinding, *mutator]
}

// Mutating returns the plugin MutatingAdmissionPolicy.
func Mutating(cfg Config) (admission.Plugin, error) {
	files, err := openFiles(cfg, "MutatingAdmissionPolicy", true)
	if err != nil {
		return admission.Plugin{}, err
	}
	e := newEngine(cfg)
	m := &mutating{engine: e}
	m.source = &source[*admissionregistrationv1.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicyBinding, *mutator]{
		objects: cfg.Objects, files: files, compile: e.compileMutating, forget: e.metrics.forgetMutating,
		define: func(p *admissionregistrationv1.MutatingAdmissionPolicy) definition {
			return newDefinition(p.Name, p.Spec.FailurePolicy, p.Spec.ParamKind, p.Spec.MatchConstraints)
		},
		bind: func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) binding {
			return binding{name: b.Name, policy: b.Spec.PolicyName, paramRef: b.Spec.ParamRef, match: criteriaOf(b.Spec.MatchResources)}
		},
	}
	return admission.Plugin{Mutate: m.mutate, Connections: true}, nil
}

// invocation is one evaluation of a policy: under a binding, with a parameter.
type invocation struct {
	policy   *policy[*mutator]
	binding  string
	question question
}

// key identifies an invocation when the plugins run for the second time.
func (i *invocation) key() invocationKey {
	k := invocationKey{policy: i.policy.name, binding: i.binding}
	if param := i.question.param; param != nil {
		k.paramNamespace, k.param = param.GetNamespace(), param.GetName()
	}
	return k
}

// mutation is the course of one request through the policies.
type mutation struct {
	*mutating
	req   *admission.Request
	asked *asked
	state *reinvocation
	// failures are the errors of policies that do not ignore them.
	failures []mutationFailure
	// last is the form of the object that the last policy was applied to. changed reports whether one
	// was applied at all.
	last    *k8sadmission.VersionedAttributes
	changed bool
}

type mutationFailure struct {
	text   string
	reason metav1.StatusReason // empty for Forbidden
}

func (m *mutating) mutate(ctx context.Context, req *admission.Request) error {
	if req.Verb == admission.Delete || req.Object == nil {
		return nil
	}
	policies, err := m.source.get(ctx, req.Kind)
	if err != nil || len(policies) == 0 {
		return err
	}
	a := attributesOf(ctx, req)
	course := &mutation{mutating: m, req: req, asked: &asked{
		engine: m.engine, req: req, attr: a, forms: forms{engine: m.engine, attr: a, req: req},
		authz: cachingauthorizer.NewCachingAuthorizer(m.authorizer),
	}}
	var invocations []invocation
	for i := range policies {
		invocations = append(invocations, course.invocations(ctx, &policies[i])...)
	}
	if len(invocations) > 0 {
		if err := course.run(ctx, invocations); err != nil {
			return err
		}
	}
	return course.refusal()
}

// invocations returns how a policy applies to the request.
func (c *mutation) invocations(ctx context.Context, p *policy[*mutator]) []invocation {
	form, paramKind, ok, err := c.asked.matches(ctx, &p.definition)
	if err != nil {
		c.fail(p, "", fmt.Errorf("failed to configure policy: %w", err), "")
		return nil
	}
	if !ok {
		return nil
	}
	var found []invocation
	for i := range p.bindings {
		b := &p.bindings[i]
		questions, err := c.asked.questions(ctx, form, paramKind, b)
		if err != nil {
			c.fail(p, b.name, fmt.Errorf("failed to configure binding: %w", err), "")
			continue
		}
		for _, q := range questions {
			found = append(found, invocation{p, b.name, q})
		}
	}
	return found
}

// run applies policies to the request's object.
func (c *mutation) run(ctx context.Context, invocations []invocation) error {
	namespace, err := c.asked.namespace(ctx)
	if err != nil {
		return err
	}
	c.state = reinvocationOf(c.req)
	defer func() { c.state.output = c.req.Object.DeepCopyObject() }()
	if c.req.Reinvoked() && !apiequality.Semantic.DeepEqual(c.state.output, c.req.Object) {
		c.state.require()
	}
	for i := range invocations {
		invocations[i].question.namespace = namespace
		if err := c.invoke(ctx, &invocations[i]); err != nil {
			return err
		}
	}
	if err := c.write(); err != nil {
		return err
	}
	if c.changed {
		c.state.require()
		c.req.Reinvoke()
	}
	return nil
}

// invoke applies one policy under a binding, with a parameter. Its error ends the request.
func (c *mutation) invoke(ctx context.Context, i *invocation) error {
	m, q := i.policy.compiled.evaluator(), i.question
	if err := c.present(&q); err != nil {
		return err
	}
	if m.err != nil {
		c.fail(i.policy, i.binding, m.err, metav1.StatusReasonInvalid)
		return nil
	}
	ctx = m.compiler.CreateContext(ctx)
	if m.matcher != nil {
		result := m.matcher.Match(ctx, q.attr, q.variables(true).VersionedParams, q.authz)
		if result.Error != nil {
			c.fail(i.policy, i.binding, result.Error, metav1.StatusReasonInvalid)
			return nil
		}
		if !result.Matches {
			return nil
		}
	}
	if c.req.Reinvoked() && !c.state.again[i.key()] {
		return nil
	}
	before := q.attr.VersionedObject.Object()
	for _, patcher := range m.patchers {
		c.last = q.attr
		began := time.Now()
		err := c.patch(ctx, patcher, q)
		text := ""
		if err != nil {
			text = err.Error()
		}
		c.metrics.mutated(i.policy.name, i.binding, errorType(text), time.Since(began))
		if err == nil {
			continue
		}
		if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
			return status
		}
		c.fail(i.policy, i.binding, err, metav1.StatusReasonInvalid)
	}
	if !apiequality.Semantic.DeepEqual(before, q.attr.VersionedObject.Object()) {
		c.state.require()
		c.req.Reinvoke()
	}
	if m.again {
		c.state.invoked[i.key()] = true
	}
	return nil
}

// present has a question be about the object as the policies before have left it, whatever the form in
// which they saw it.
func (c *mutation) present(q *question) error {
	if c.last != nil && c.last.VersionedKind != q.form.kind {
		if err := c.write(); err != nil {
			return err
		}
		c.asked.forms.made, c.last = nil, nil
	}
	attr, err := c.asked.forms.as(q.form.kind)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	q.attr = attr
	return nil
}

// write puts the object in the place of the request's, if a policy has changed it.
func (c *mutation) write() error {
	if c.last == nil || !c.last.Dirty {
		return nil
	}
	c.changed = true
	obj, ok := c.last.VersionedObject.Object().(scheme.Object)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("a mutation made a %T, which has no metadata", c.last.VersionedObject.Object()))
	}
	own := c.asked.attr.GetKind()
	if kind := c.objects.Table.Kind(own); kind != nil && c.last.VersionedKind != own {
		converted, err := c.definitions.Convert(obj, kind)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
		}
		obj = converted
	}
	into, from := reflect.ValueOf(c.req.Object), reflect.ValueOf(obj)
	if into.Type() != from.Type() {
		return apierrors.NewInternalError(fmt.Errorf("a mutation made a %T of a %T", obj, c.req.Object))
	}
	into.Elem().Set(from.Elem())
	return nil
}

// fail records that a policy could not be applied, unless it ignores that.
func (c *mutation) fail(p *policy[*mutator], binding string, err error, reason metav1.StatusReason) {
	if p.ignores {
		return
	}
	text := fmt.Sprintf("policy %q denied request: %s", p.name, err)
	if binding != "" {
		text = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", p.name, binding, err)
	}
	c.failures = append(c.failures, mutationFailure{text, reason})
}

// refusal returns Kubernetes' error for the failures; nil if there are none.
func (c *mutation) refusal() error {
	if len(c.failures) == 0 {
		return nil
	}
	err := admission.Forbidden(c.req, errors.New("admission request denied by policy"))
	err.ErrStatus.Message = c.failures[0].text
	if reason := c.failures[0].reason; reason != "" {
		err.ErrStatus.Reason = reason
	}
	for _, failure := range c.failures {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: failure.text})
	}
	return err
}
