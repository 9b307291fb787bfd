package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	k8sauthorizer "k8s.io/apiserver/pkg/authorization/authorizer"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/garboard/garboard/libs/scheme"
)

// validator evaluates one generation of a ValidatingAdmissionPolicy.
type validator struct {
	spec    *admissionregistrationv1.ValidatingAdmissionPolicySpec
	ignores bool
	err     error // Nothing could be compiled.
	matcher matchconditions.Matcher
	// messages and annotations are nil if no expression is among them.
	validations, messages, annotations plugincel.ConditionEvaluator
}

// question is what a policy is evaluated for: a request in the form that the policy matches, and one
// parameter.
type question struct {
	form      matched
	attr      *k8sadmission.VersionedAttributes
	param     scheme.Object // nil if there is none
	namespace *corev1.Namespace
	authz     k8sauthorizer.UnconditionalAuthorizer
}

// variables returns what expressions may read besides the request itself.
func (q question) variables(withAuthorizer bool) plugincel.OptionalVariableBindings {
	var v plugincel.OptionalVariableBindings
	if q.param != nil {
		v.VersionedParams = q.param
	}
	if withAuthorizer {
		v.Authorizer = q.authz
	}
	return v
}

// verdict is the result of one validation.
type verdict struct {
	denied bool
	// failure is the text of an error, which denies unless the policy ignores failures; empty if the
	// expression has a result.
	failure string
	message string
	reason  metav1.StatusReason
	took    time.Duration
}

// annotation is the result of one audit annotation, or its failure.
type annotation struct {
	key, value, failure string
	took                time.Duration
}

func (e *engine) compileValidating(p *admissionregistrationv1.ValidatingAdmissionPolicy) *validator {
	v := &validator{spec: &p.Spec, ignores: failureIgnored(p.Spec.FailurePolicy)}
	declared := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := newCompiler(p.Spec.Variables, declared)
	if err != nil {
		v.err = err
		return v
	}
	v.matcher = e.newMatcher(compiler, p.Spec.MatchConditions, p.Spec.FailurePolicy, declared, p.Name, "validate")
	var validations, messages, annotations []plugincel.ExpressionAccessor
	explained := false
	for _, validation := range p.Spec.Validations {
		validations = append(validations, &expression{text: validation.Expression, is: []*cel.Type{cel.BoolType}})
		if validation.MessageExpression == "" {
			messages = append(messages, nil)
			continue
		}
		messages = append(messages, &expression{text: validation.MessageExpression, is: []*cel.Type{cel.StringType}})
		explained = true
	}
	for _, note := range p.Spec.AuditAnnotations {
		annotations = append(annotations, &expression{text: note.ValueExpression, is: []*cel.Type{cel.StringType, cel.NullType}})
	}
	v.validations = compiler.CompileCondition(validations, declared, environment.StoredExpressions)
	if explained {
		withoutAuthorizer := plugincel.OptionalVariableDeclarations{HasParams: declared.HasParams}
		v.messages = compiler.CompileCondition(messages, withoutAuthorizer, environment.StoredExpressions)
	}
	if len(annotations) > 0 {
		v.annotations = compiler.CompileCondition(annotations, declared, environment.StoredExpressions)
	}
	return v
}

// failed returns the one verdict of a policy that cannot be evaluated.
func (v *validator) failed(err error) ([]verdict, []annotation) {
	return []verdict{{denied: !v.ignores, failure: err.Error(), message: err.Error()}}, nil
}

// validate returns a verdict for each validation, or one for all of them; none if the match conditions do
// not hold.
func (v *validator) validate(ctx context.Context, q question) ([]verdict, []annotation) {
	if v.err != nil {
		return v.failed(v.err)
	}
	if v.matcher != nil {
		variables := q.variables(true)
		result := v.matcher.Match(ctx, q.attr, variables.VersionedParams, q.authz)
		if result.Error != nil {
			return v.failed(result.Error)
		}
		if !result.Matches {
			return nil, nil
		}
	}
	request := plugincel.CreateAdmissionRequest(q.attr.Attributes, metav1.GroupVersionResource(q.form.resource), metav1.GroupVersionKind(q.form.kind))
	namespace := plugincel.CreateNamespaceObject(q.namespace)
	results, budget, err := v.validations.ForInput(ctx, q.attr, request, q.variables(true), namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return v.failed(err)
	}
	var messages []plugincel.EvaluationResult
	var messagesErr error
	if v.messages != nil {
		messages, _, messagesErr = v.messages.ForInput(ctx, q.attr, request, q.variables(false), namespace, budget)
	}
	verdicts := make([]verdict, len(results))
	for i, result := range results {
		var message *plugincel.EvaluationResult
		if i < len(messages) {
			message = &messages[i]
		}
		verdicts[i] = v.verdict(&v.spec.Validations[i], result, message, messagesErr)
	}
	notes, err := v.annotate(ctx, q, request)
	if err != nil {
		return v.failed(err)
	}
	return verdicts, notes
}

func (v *validator) verdict(of *admissionregistrationv1.Validation, result plugincel.EvaluationResult, message *plugincel.EvaluationResult, messagesErr error) verdict {
	d := verdict{took: result.Elapsed}
	switch {
	case result.Error != nil:
		d.failure = result.Error.Error()
	case errors.Is(messagesErr, apiservercel.ErrInternal) || errors.Is(messagesErr, apiservercel.ErrOutOfBudget):
		d.failure = fmt.Sprintf("failed messageExpression: %s", messagesErr)
	case result.EvalResult != celtypes.True:
		d.denied, d.reason, d.message = true, metav1.StatusReasonInvalid, messageOf(of, message)
		if of.Reason != nil {
			d.reason = *of.Reason
		}
	}
	if d.failure != "" {
		d.denied, d.message = !v.ignores, d.failure
	}
	return d
}

// messageOf returns what a client is told: what the message's expression has returned, unless it is empty,
// too long or of several lines, or else the message, or else the expression.
func messageOf(of *admissionregistrationv1.Validation, result *plugincel.EvaluationResult) string {
	if result != nil && result.Error == nil && result.EvalResult != nil {
		text, _ := result.EvalResult.Value().(string)
		text = strings.TrimSpace(text)
		if text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
			return text
		}
	}
	if text := strings.TrimSpace(of.Message); text != "" {
		return text
	}
	return fmt.Sprintf("failed expression: %v", strings.TrimSpace(of.Expression))
}

// annotate returns the audit annotations that have a value, or failed.
func (v *validator) annotate(ctx context.Context, q question, request *admissionv1.AdmissionRequest) ([]annotation, error) {
	if v.annotations == nil {
		return nil, nil
	}
	// Kubernetes shows these expressions the whole namespace, and no authorizer.
	results, _, err := v.annotations.ForInput(ctx, q.attr, request, q.variables(false), q.namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return nil, err
	}
	var notes []annotation
	for i, result := range results {
		of := v.spec.AuditAnnotations[i]
		note := annotation{key: of.Key, took: result.Elapsed}
		switch {
		case result.Error != nil && v.ignores:
			continue
		case result.Error != nil:
			note.failure = result.Error.Error()
		case result.EvalResult.Type() == celtypes.StringType:
			text, _ := result.EvalResult.Value().(string)
			if note.value = strings.TrimSpace(text); note.value == "" {
				continue
			}
		case result.EvalResult.Type() == celtypes.NullType:
			continue
		default:
			note.failure = fmt.Sprintf("valueExpression '%v' resulted in unsupported return type: %v. "+
				"Return type must be either string or null.", of.ValueExpression, result.EvalResult.Type())
		}
		notes = append(notes, note)
	}
	return notes, nil
}
