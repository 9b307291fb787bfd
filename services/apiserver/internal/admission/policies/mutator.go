package policies

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/garboard/garboard/libs/scheme"
)

// mutator evaluates one generation of a MutatingAdmissionPolicy.
type mutator struct {
	compiler *plugincel.CompositedCompiler
	matcher  matchconditions.Matcher
	patchers []patch.Patcher
	again    bool  // reinvocationPolicy IfNeeded
	err      error // Nothing could be compiled.
}

func (e *engine) compileMutating(p *admissionregistrationv1.MutatingAdmissionPolicy) *mutator {
	m := &mutator{again: p.Spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy}
	declared := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	if m.compiler, m.err = newCompiler(p.Spec.Variables, declared); m.err != nil {
		m.err = fmt.Errorf("failed to initialize CEL compiler: %w", m.err)
		return m
	}
	m.matcher = e.newMatcher(m.compiler, p.Spec.MatchConditions, p.Spec.FailurePolicy, declared, p.Name, "admit")
	declared.HasPatchTypes = true
	for _, mutation := range p.Spec.Mutations {
		compile := func(accessor plugincel.ExpressionAccessor) plugincel.MutatingEvaluator {
			return m.compiler.CompileMutatingEvaluator(accessor, declared, environment.StoredExpressions)
		}
		switch {
		case mutation.PatchType == admissionregistrationv1.PatchTypeJSONPatch && mutation.JSONPatch != nil:
			accessor := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
			m.patchers = append(m.patchers, patch.NewJSONPatcher(compile(accessor)))
		case mutation.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && mutation.ApplyConfiguration != nil:
			accessor := &patch.ApplyConfigurationCondition{Expression: mutation.ApplyConfiguration.Expression}
			m.patchers = append(m.patchers, patch.NewApplyConfigurationPatcher(compile(accessor)))
		}
	}
	return m
}

// patch applies one mutation to the object of a question. Later questions with the same form see the
// result.
func (e *engine) patch(ctx context.Context, patcher patch.Patcher, q question) error {
	if _, err := e.definitions.ObjectToTyped(emptyOf(q.attr.VersionedKind)); err != nil && e.objects.Table.Kind(q.attr.VersionedKind) != nil {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. There can be a delay between when "+
			"CustomResourceDefinitions are created and when they are available.", q.attr.VersionedKind))
	}
	patched, err := patcher.Patch(ctx, patch.Request{
		MatchedResource: q.form.resource, VersionedAttributes: q.attr, ObjectInterfaces: interfaces{e}, OptionalVariables: q.variables(true),
		Namespace: q.namespace, TypeConverter: e.definitions,
	}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return err
	}
	if _, custom := q.attr.VersionedObject.Object().(*unstructured.Unstructured); !custom {
		if patched, err = e.objects.Table.Scheme().ConvertToVersion(patched, q.attr.VersionedKind.GroupVersion()); err != nil {
			return err
		}
	}
	obj, ok := patched.(scheme.Object)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("a mutation returned a %T, which has no metadata", patched))
	}
	obj.GetObjectKind().SetGroupVersionKind(q.attr.VersionedKind)
	e.definitions.Complete(obj)
	q.attr.UpdateObject(obj)
	return nil
}

func emptyOf(gvk schema.GroupVersionKind) runtime.Object {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(gvk)
	return empty
}

// interfaces are what the library's patchers use to decode objects.
type interfaces struct{ *engine }

func (i interfaces) GetObjectCreater() runtime.ObjectCreater     { return i.objects.Table.Scheme() }
func (i interfaces) GetObjectTyper() runtime.ObjectTyper         { return i.objects.Table.Scheme() }
func (i interfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return i.objects.Table.Scheme() }
func (i interfaces) GetObjectConvertor() runtime.ObjectConvertor { return i.objects.Table.Scheme() }
func (i interfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return i.equivalents.Get()
}

var _ k8sadmission.ObjectInterfaces = interfaces{}
