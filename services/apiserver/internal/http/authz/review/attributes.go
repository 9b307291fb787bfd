package review

import (
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// attributes returns what a review asks about. Exactly one of on and path is set.
func attributes(on *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authz.Attributes {
	if on == nil {
		return authz.Attributes{NonResource: true, Path: path.Path, Verb: path.Verb}
	}
	a := authz.Attributes{
		Verb: on.Verb, Group: on.Group, Version: on.Version, Resource: on.Resource, Subresource: on.Subresource,
		Namespace: on.Namespace, Name: on.Name,
	}
	if a.Version == "" {
		a.Version = "*"
	}
	if on.FieldSelector != nil {
		a.Fields, a.FieldsErr = fieldsOf(on.FieldSelector)
	}
	if on.LabelSelector != nil {
		a.Labels, a.LabelsErr = labelsOf(on.LabelSelector)
	}
	return a
}

// fieldsOf returns the requirements of a selector. It leaves out the parts that it doesn't
// understand and reports them in the error. The rest is a wider request, so nothing is allowed
// by mistake.
func fieldsOf(selector *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if len(selector.Requirements) == 0 {
		parsed, err := fields.ParseSelector(selector.RawSelector)
		if err != nil {
			return nil, err
		}
		return parsed.Requirements(), nil
	}
	var demands fields.Requirements
	var errs []error
	for _, one := range selector.Requirements {
		demand := fields.Requirement{Field: one.Key}
		switch one.Operator {
		case metav1.FieldSelectorOpIn:
			demand.Operator = selection.Equals
		case metav1.FieldSelectorOpNotIn:
			demand.Operator = selection.NotEquals
		case metav1.FieldSelectorOpExists, metav1.FieldSelectorOpDoesNotExist:
			errs = append(errs, fmt.Errorf("fieldSelectors do not yet support %v", one.Operator))
			continue
		default:
			errs = append(errs, fmt.Errorf("%q is not a valid field selector operator", one.Operator))
			continue
		}
		if len(one.Values) != 1 {
			errs = append(errs, fmt.Errorf("fieldSelectors %v must have one value", one.Operator))
			continue
		}
		demand.Value = one.Values[0]
		demands = append(demands, demand)
	}
	return demands, errors.Join(errs...)
}

// labelsOf is fieldsOf for labels.
func labelsOf(selector *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if len(selector.Requirements) == 0 {
		parsed, err := labels.Parse(selector.RawSelector)
		if err != nil {
			return nil, err
		}
		demands, _ := parsed.Requirements()
		return demands, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var demands labels.Requirements
	var errs []error
	for _, one := range selector.Requirements {
		operator, ok := operators[one.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", one.Operator))
			continue
		}
		var values []string
		if len(one.Values) > 0 {
			values = one.Values
		}
		demand, err := labels.NewRequirement(one.Key, operator, values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		demands = append(demands, *demand)
	}
	return demands, errors.Join(errs...)
}
