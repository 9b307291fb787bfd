package policies

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	cachingauthorizer "k8s.io/apiserver/pkg/admission/plugin/authorizer"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// The bounds of what is recorded in an audit event, as in Kubernetes.
const (
	maxRecordedFailures = 50
	maxAnnotation       = 10 << 10
)

// failureNote is the audit annotation with the failures of bindings with the action Audit.
const failureNote = "validation.policy.admission.k8s.io/validation_failure"

// validating is the plugin ValidatingAdmissionPolicy.
type validating struct {
	*engine
	source *source[*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, *validator]
}

// Validating returns the plugin ValidatingAdmissionPolicy.
func Validating(cfg Config) (admission.Plugin, error) {
	files, err := openFiles(cfg, "ValidatingAdmissionPolicy", false)
	if err != nil {
		return admission.Plugin{}, err
	}
	e := newEngine(cfg)
	v := &validating{engine: e}
	v.source = &source[*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, *validator]{
		objects: cfg.Objects, files: files, compile: e.compileValidating, forget: e.metrics.forgetValidating,
		define: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) definition {
			return newDefinition(p.Name, p.Spec.FailurePolicy, p.Spec.ParamKind, p.Spec.MatchConstraints)
		},
		bind: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) binding {
			return binding{b.Name, b.Spec.PolicyName, b.Spec.ParamRef, criteriaOf(b.Spec.MatchResources), b.Spec.ValidationActions}
		},
	}
	return admission.Plugin{Validate: v.validate, Connections: true}, nil
}

// denial is a reason to refuse a request.
type denial struct {
	policy, binding string // binding is empty if the policy itself is wrong.
	message         string
	reason          metav1.StatusReason
}

// outcome collects what policies make of one request.
type outcome struct {
	denials  []denial
	failures []recordedFailure
}

// recordedFailure is an element of failureNote.
type recordedFailure struct {
	Message           string                                     `json:"message"`
	Policy            string                                     `json:"policy"`
	Binding           string                                     `json:"binding"`
	ExpressionIndex   int                                        `json:"expressionIndex"`
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions"`
}

func (v *validating) validate(ctx context.Context, req *admission.Request) error {
	policies, err := v.source.get(ctx, req.Kind)
	if err != nil || len(policies) == 0 {
		return err
	}
	a := attributesOf(ctx, req)
	asked := &asked{
		engine: v.engine, req: req, attr: a, forms: forms{engine: v.engine, attr: a, req: req},
		authz: cachingauthorizer.NewCachingAuthorizer(v.authorizer),
	}
	var o outcome
	for i := range policies {
		if err := v.apply(ctx, &policies[i], asked, &o); err != nil {
			return err
		}
	}
	o.record(ctx)
	if len(o.denials) == 0 {
		return nil
	}
	return refusal(req, o.denials[0])
}

// apply evaluates one policy with each of its bindings.
func (v *validating) apply(ctx context.Context, p *policy[*validator], asked *asked, o *outcome) error {
	misconfigured := func(binding string, err error) {
		if p.ignores {
			return
		}
		what := "policy"
		if binding != "" {
			what = "binding"
		}
		o.denials = append(o.denials, denial{policy: p.name, binding: binding, message: fmt.Sprintf("failed to configure %s: %v", what, err)})
	}
	form, paramKind, ok, err := asked.matches(ctx, &p.definition)
	if err != nil {
		misconfigured("", err)
		return nil
	}
	if !ok {
		return nil
	}
	notes := notes{}
	for i := range p.bindings {
		b := &p.bindings[i]
		questions, err := asked.questions(ctx, form, paramKind, b)
		if err != nil {
			misconfigured(b.name, err)
			continue
		}
		if len(questions) == 0 {
			continue
		}
		namespace, err := asked.namespace(ctx)
		if err != nil {
			return err
		}
		for _, q := range questions {
			q.namespace = namespace
			verdicts, annotations := p.compiled.evaluator().validate(ctx, q)
			v.decide(ctx, p.name, b, verdicts, o)
			v.annotate(p.name, b, annotations, notes, o)
		}
	}
	notes.record(ctx, p.name)
	return nil
}

// decide does what a binding wants to be done about each verdict.
func (v *validating) decide(ctx context.Context, policy string, b *binding, verdicts []verdict, o *outcome) {
	for i, d := range verdicts {
		// Kubernetes counts every denial as an invalid_error.
		count := func(action string) { v.metrics.validated(policy, b.name, errorType(d.message), action, d.took) }
		if !d.denied {
			if d.failure != "" {
				count("allow")
			}
			continue
		}
		for _, action := range b.actions {
			switch action {
			case admissionregistrationv1.Deny:
				o.denials = append(o.denials, denial{policy, b.name, d.message, d.reason})
				count("deny")
			case admissionregistrationv1.Audit:
				o.failures = append(o.failures, recordedFailure{d.message, b.policy, b.name, i, b.actions})
				count("audit")
			case admissionregistrationv1.Warn:
				admission.Warn(ctx, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", policy, b.name, d.message))
				count("warn")
			}
		}
	}
}

// annotate collects audit annotations. One that failed denies the request.
func (v *validating) annotate(policy string, b *binding, annotations []annotation, into notes, o *outcome) {
	for _, a := range annotations {
		if a.failure == "" {
			into.add(a.key, a.value)
			continue
		}
		o.denials = append(o.denials, denial{policy: policy, binding: b.name, message: a.failure})
		v.metrics.validated(policy, b.name, errorType(a.failure), "deny", a.took)
	}
}

// record adds the failures of bindings with the action Audit to the request's audit event.
func (o *outcome) record(ctx context.Context) {
	if len(o.failures) == 0 {
		return
	}
	value, err := utiljson.Marshal(o.failures[:min(len(o.failures), maxRecordedFailures)])
	if err == nil { // Strings and numbers can always be encoded.
		audit.From(ctx).Annotate(failureNote, string(value))
	}
}

// notes are the audit annotations of a policy: for each key the distinct values in their order.
type notes map[string][]string

func (n notes) add(key, value string) {
	value = value[:min(len(value), maxAnnotation)]
	if !slices.Contains(n[key], value) {
		n[key] = append(n[key], value)
	}
}

func (n notes) record(ctx context.Context, policy string) {
	for key, values := range n {
		audit.From(ctx).Annotate(policy+"/"+key, strings.Join(values, ", "))
	}
}

// refusal returns Kubernetes' error for a denied request.
func refusal(req *admission.Request, d denial) error {
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", d.policy, d.message)
	if d.binding != "" {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", d.policy, d.binding, d.message)
	}
	err := admission.Forbidden(req, errors.New(message))
	err.ErrStatus.Reason = d.reason
	if d.reason == "" {
		err.ErrStatus.Reason = metav1.StatusReasonInvalid
	}
	switch err.ErrStatus.Reason {
	case metav1.StatusReasonForbidden:
		err.ErrStatus.Code = http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		err.ErrStatus.Code = http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		err.ErrStatus.Code = http.StatusRequestEntityTooLarge
	default:
		err.ErrStatus.Code = http.StatusUnprocessableEntity
	}
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	return err
}
