package policies

import (
	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// expression is an expression of a policy, with the types that it may have.
type expression struct {
	name string // of a variable
	text string
	is   []*cel.Type
}

// GetExpression, GetName and ReturnTypes implement the library's NamedExpressionAccessor.
func (e *expression) GetExpression() string    { return e.text }
func (e *expression) GetName() string          { return e.name }
func (e *expression) ReturnTypes() []*cel.Type { return e.is }

// newCompiler returns a compiler that knows the variables of a policy.
func newCompiler(variables []admissionregistrationv1.Variable, declared plugincel.OptionalVariableDeclarations) (*plugincel.CompositedCompiler, error) {
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	for _, v := range variables {
		accessor := &expression{name: v.Name, text: v.Expression, is: []*cel.Type{cel.AnyType, cel.DynType}}
		compiler.CompileAndStoreVariable(accessor, declared, environment.StoredExpressions)
	}
	return compiler, nil
}

// newMatcher returns what evaluates match conditions; nil if there are none.
func (e *engine) newMatcher(
	compiler *plugincel.CompositedCompiler, conditions []admissionregistrationv1.MatchCondition,
	failure *admissionregistrationv1.FailurePolicyType, declared plugincel.OptionalVariableDeclarations, policy, step string,
) matchconditions.Matcher {
	if len(conditions) == 0 {
		return nil
	}
	accessors := make([]plugincel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		accessors[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	evaluator := compiler.CompileCondition(accessors, declared, environment.StoredExpressions)
	return matchconditions.NewMatcher(measured{evaluator, e.metrics, policy, step}, failure, conditionKind, step, policy)
}
