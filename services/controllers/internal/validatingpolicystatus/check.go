package validatingpolicystatus

import (
	"context"
	"fmt"
	"strings"

	celgo "github.com/google/cel-go/cel"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// check returns what is wrong with the types in a policy's validations. As in Kubernetes, each kind of
// object is checked alone, and a kind without a schema not at all. The texts are those of Kubernetes'
// TypeChecker, which cannot be imported without the whole clientset.
func (c *checker) check(ctx context.Context, p policy) ([]registrationv1.ExpressionWarning, error) {
	compilers, err := c.compilers(ctx, p)
	if err != nil {
		return nil, err
	}
	var warnings []registrationv1.ExpressionWarning
	warn := func(at *field.Path, text string) error {
		if err := ctx.Err(); err != nil { // There may be many.
			return err
		}
		if issues := issues(compilers, text); issues != "" {
			warnings = append(warnings, registrationv1.ExpressionWarning{FieldRef: at.String(), Warning: issues})
		}
		return nil
	}
	validations := field.NewPath("spec", "validations")
	for i, v := range p.Spec.Validations {
		if err := warn(validations.Index(i).Child("expression"), v.Expression); err != nil {
			return nil, err
		}
		if v.MessageExpression == "" {
			continue
		}
		if err := warn(validations.Index(i).Child("messageExpression"), v.MessageExpression); err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

// issues returns what the compilers find wrong with an expression; empty if nothing.
func issues(compilers []compiler, text string) string {
	var found []string
	for _, c := range compilers {
		switch err := c.CompileCELExpression(expression{text: text}, c.options, environment.StoredExpressions).Error; {
		case err == nil:
		case err.Type == apiservercel.ErrorTypeInvalid:
			found = append(found, fmt.Sprintf("%v: %s\n", c.kind, err))
		default:
			found = append(found, fmt.Sprintf("%v: type checking error: %v\n", c.kind, err))
		}
	}
	return strings.Join(found, "\n")
}

// compiler compiles a policy's expressions for one kind of object.
type compiler struct {
	*cel.CompositedCompiler
	kind    schema.GroupVersionKind
	options cel.OptionalVariableDeclarations
}

// compilers returns a compiler for each kind that a policy names, with the policy's variables.
func (c *checker) compilers(ctx context.Context, p policy) ([]compiler, error) {
	kinds, err := c.kindsOf(ctx, p.Spec.MatchConstraints)
	if err != nil {
		return nil, err
	}
	schemas := c.newSchemas()
	params, err := paramsOf(ctx, p, schemas)
	if err != nil {
		return nil, err
	}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, expression{name: v.Name, text: v.Expression})
	}
	options := cel.OptionalVariableDeclarations{HasParams: namedParams(p), HasAuthorizer: true}
	var compilers []compiler
	for _, kind := range kinds {
		object, known, err := schemas.declared(ctx, kind)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		made, err := newCompiler(object, params, options.HasParams)
		if err != nil {
			return nil, fmt.Errorf("preparing to check expressions about %s: %w", kind, err)
		}
		made.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
		compilers = append(compilers, compiler{made, kind, options})
	}
	return compilers, nil
}

// namedParams reports whether a policy has parameters of a kind that can be read.
func namedParams(p policy) bool { return !paramsKind(p).Empty() }

func paramsKind(p policy) schema.GroupVersionKind {
	if p.Spec.ParamKind == nil {
		return schema.GroupVersionKind{}
	}
	version, err := schema.ParseGroupVersion(p.Spec.ParamKind.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return version.WithKind(p.Spec.ParamKind.Kind)
}

// paramsOf returns the type of a policy's parameters; nil for any.
func paramsOf(ctx context.Context, p policy, schemas *schemas) (*apiservercel.DeclType, error) {
	if !namedParams(p) {
		return nil, nil
	}
	declared, _, err := schemas.declared(ctx, paramsKind(p))
	return declared, err
}

// newCompiler returns a compiler for objects and parameters of two types, each nil for any.
func newCompiler(object, params *apiservercel.DeclType, hasParams bool) (*cel.CompositedCompiler, error) {
	request, namespace := cel.BuildRequestType(), cel.BuildNamespaceType()
	declared := []*apiservercel.DeclType{namespace, request}
	variables := []celgo.EnvOption{
		celgo.Variable(cel.NamespaceVarName, namespace.CelType()), celgo.Variable(cel.RequestVarName, request.CelType()),
		celgo.Variable(cel.AuthorizerVarName, library.AuthorizerType),
	}
	add := func(of *apiservercel.DeclType, names ...string) {
		as := celgo.DynType
		if of != nil {
			as = of.CelType()
			declared = append(declared, of)
		}
		for _, name := range names {
			variables = append(variables, celgo.Variable(name, as))
		}
	}
	add(object, cel.ObjectVarName, cel.OldObjectVarName)
	if hasParams {
		add(params, cel.ParamsVarName)
	}
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: variables, DeclTypes: declared,
	})
	if err != nil {
		return nil, err
	}
	made, err := cel.NewCompositedCompilerForTypeChecking(env)
	if err != nil {
		return nil, err
	}
	made.Compiler = typed{made}
	return made, nil
}

// typed compiles expressions without making programs of them, and lets them have any type.
type typed struct{ env *cel.CompositedCompiler }

// CompileCELExpression implements cel.Compiler.
func (t typed) CompileCELExpression(
	of cel.ExpressionAccessor, _ cel.OptionalVariableDeclarations, mode environment.Type,
) cel.CompilationResult {
	failed := func(as apiservercel.ErrorType, detail string) cel.CompilationResult {
		return cel.CompilationResult{ExpressionAccessor: of, Error: &apiservercel.Error{Type: as, Detail: detail}}
	}
	env, err := t.env.Env(mode)
	if err != nil {
		return failed(apiservercel.ErrorTypeInternal, fmt.Sprintf("fail to build env: %v", err))
	}
	ast, issues := env.Compile(of.GetExpression())
	if issues != nil {
		return failed(apiservercel.ErrorTypeInvalid, issues.String())
	}
	return cel.CompilationResult{OutputType: ast.OutputType()}
}

// expression is an expression of a policy; that of a variable has a name.
type expression struct{ name, text string }

// GetName implements cel.NamedExpressionAccessor.
func (e expression) GetName() string { return e.name }

// GetExpression implements cel.ExpressionAccessor.
func (e expression) GetExpression() string { return e.text }

// ReturnTypes implements cel.ExpressionAccessor.
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType} }
