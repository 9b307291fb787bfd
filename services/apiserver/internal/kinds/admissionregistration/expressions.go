package admissionregistration

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// use is what an expression is for. It decides what the expression may read and return.
type use int

const (
	condition use = iota
	validates
	message
	annotation
	application
	jsonPatch
)

// expression is an expression of a webhook or a policy.
type expression struct {
	use  use
	name string // of a variable
	text string // as it is compiled
	is   []*cel.Type
}

// GetExpression, GetName and ReturnTypes implement the library's NamedExpressionAccessor.
func (e expression) GetExpression() string    { return e.text }
func (e expression) GetName() string          { return e.name }
func (e expression) ReturnTypes() []*cel.Type { return e.is }

func newExpression(of use, text string) expression {
	e := expression{use: of, text: text}
	switch of {
	case condition, validates:
		e.is = []*cel.Type{cel.BoolType}
	case message:
		e.is = []*cel.Type{cel.StringType}
	case annotation:
		e.is = []*cel.Type{cel.StringType, cel.NullType}
	case application:
		e.is = (&patch.ApplyConfigurationCondition{}).ReturnTypes()
	case jsonPatch:
		e.is = (&patch.JSONPatchCondition{}).ReturnTypes()
	}
	return e
}

// validator validates the kinds whose objects have expressions. It is safe for concurrent use.
type validator struct {
	// plain compiles expressions that read no variables. It is made when an object first has an expression.
	plain func() plugincel.Compiler
}

func newValidator() validator {
	return validator{plain: sync.OnceValue(func() plugincel.Compiler {
		return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	})}
}

// known are the expressions of the stored object by their use. They may use what only later versions of
// Kubernetes offer to new expressions.
type known map[use]map[string]bool

func (k known) add(of use, text string) {
	if k[of] == nil {
		k[of] = map[string]bool{}
	}
	k[of][text] = true
}

func (k known) mode(of use, text string) environment.Type {
	if k[of][text] {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// compilation compiles the expressions of one object.
type compilation struct {
	validator
	known  known
	params bool // The object has parameters.
	// composed knows the object's variables; nil if expressions cannot read any.
	composed *plugincel.CompositedCompiler
}

// withVariables lets expressions read variables.
func (c *compilation) withVariables() error {
	composed, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return fmt.Errorf("making an environment with variables: %w", err)
	}
	c.composed = composed
	return nil
}

// check returns the error in an expression, if it does not compile. shown is its text as the user wrote it.
func (c *compilation) check(e expression, shown string, mode environment.Type, at *field.Path) field.ErrorList {
	compiler := plugincel.Compiler(c.composed)
	if c.composed == nil || e.use == condition {
		compiler = c.plain()
	}
	declared := plugincel.OptionalVariableDeclarations{
		HasParams: c.params, HasAuthorizer: e.use != message, HasPatchTypes: e.use == application || e.use == jsonPatch,
	}
	return failure(compiler.CompileCELExpression(e, declared, mode), shown, at)
}

// define compiles a variable. Later expressions can read it.
func (c *compilation) define(v *admissionregistrationv1.Variable, at *field.Path) field.ErrorList {
	e := expression{name: v.Name, text: v.Expression, is: []*cel.Type{cel.AnyType, cel.DynType}}
	declared := plugincel.OptionalVariableDeclarations{HasParams: c.params, HasAuthorizer: true}
	// Kubernetes looks among the validations for the text of a stored variable.
	return failure(c.composed.CompileAndStoreVariable(e, declared, c.known.mode(validates, v.Expression)), v.Expression, at)
}

func failure(result plugincel.CompilationResult, shown string, at *field.Path) field.ErrorList {
	if result.Error == nil {
		return nil
	}
	switch result.Error.Type {
	case apiservercel.ErrorTypeRequired:
		return field.ErrorList{field.Required(at, result.Error.Detail)}
	case apiservercel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(at, shown, result.Error.Detail)}
	default:
		return field.ErrorList{field.InternalError(at, result.Error)}
	}
}
