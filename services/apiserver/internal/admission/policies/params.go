package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// paramKind returns the kind of a policy's parameters; nil if it has none. It is an error if the kind is
// not served.
func (e *engine) paramKind(of *admissionregistrationv1.ParamKind) (*scheme.Kind, error) {
	if of == nil {
		return nil, nil
	}
	version, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("failed to parse paramKind APIVersion: %w", err)
	}
	gvk := version.WithKind(of.Kind)
	if kind := e.objects.Table.Kind(gvk); kind != nil && !kind.Virtual {
		return kind, nil
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
}

// params returns the parameters of a binding, with each of which its policy is evaluated: one nil
// parameter if the policy or the binding has none, and nothing if they are not there and need not be.
func (e *engine) params(
	ctx context.Context, kind *scheme.Kind, ref *admissionregistrationv1.ParamRef, namespace string,
) ([]scheme.Object, error) {
	if kind == nil || ref == nil {
		return []scheme.Object{nil}, nil
	}
	switch {
	case kind.Namespaced && ref.Namespace != "":
		namespace = ref.Namespace
	case kind.Namespaced && namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	case !kind.Namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !kind.Namespaced:
		namespace = ""
	}
	found, err := e.findParams(ctx, kind, ref, namespace)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return found, nil
}

func (e *engine) findParams(
	ctx context.Context, kind *scheme.Kind, ref *admissionregistrationv1.ParamRef, namespace string,
) ([]scheme.Object, error) {
	stored := e.objects.Table.Kind(kind.Storage)
	var found []scheme.Object
	switch {
	case stored == nil: // Removed at this moment.
		return nil, nil
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		param, err := e.objects.Lookup.Get(ctx, stored, namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		found = []scheme.Object{param}
	case ref.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
		if err != nil {
			return nil, err
		}
		all, err := e.objects.Lookup.List(ctx, stored, namespace)
		if err != nil {
			return nil, err
		}
		for _, param := range all {
			if selector.Matches(labels.Set(param.GetLabels())) {
				found = append(found, param)
			}
		}
		slices.SortFunc(found, func(a, b scheme.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	default:
		return nil, errors.New("one of name or selector must be provided")
	}
	for i, param := range found {
		shown, err := e.showParam(param, kind, stored)
		if err != nil {
			return nil, err
		}
		found[i] = shown
	}
	return found, nil
}

// showParam returns a parameter in the form of its policy's paramKind.
func (e *engine) showParam(param scheme.Object, kind, stored *scheme.Kind) (scheme.Object, error) {
	if kind != stored {
		return e.definitions.Convert(param, kind)
	}
	return withKind(param, kind.GroupVersionKind)
}
