package patch

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
)

// readWanted reads the document of an apply. It is YAML, but most clients send JSON, which is
// parsed first because that is faster.
func (p *Patch) readWanted() error {
	if found, err := kjson.UnmarshalStrict(p.body, &p.document); err == nil && len(found) == 0 && p.document != nil {
		return nil
	}
	p.document = nil
	if _, err := yaml.ToJSON(p.body); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error encoding patch: %v", err))
	}
	if err := yaml.Unmarshal(p.body, &p.document); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if err := yaml.UnmarshalStrict(p.body, &map[string]any{}); err != nil {
		p.found = append(p.found, err)
	}
	return nil
}

// Wanted returns the object in a patch of the type ApplyYAMLPatchType.
func (p *Patch) Wanted() *unstructured.Unstructured {
	if p.document == nil {
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	return &unstructured.Unstructured{Object: p.document}
}

// Strict returns the faults of an apply document that can still be parsed, such as duplicate
// fields. They are warnings, or an error if the request asks for strict validation.
func (p *Patch) Strict() (warnings []string, err error) {
	for _, found := range p.found {
		switch p.directive {
		case metav1.FieldValidationIgnore:
		case metav1.FieldValidationStrict:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", found))
		default:
			warnings = append(warnings, found.Error())
		}
	}
	return warnings, nil
}
