package apiextensions

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// schemaWarnings returns warnings about parts of schemas that are accepted without the effect that they
// suggest; old, if not nil, has had its own.
func schemaWarnings(c, old crd) []string {
	had := map[string]bool{}
	if old != nil {
		for _, text := range schemaWarnings(old, nil) {
			had[text] = true
		}
	}
	in, errs := internal(c)
	if len(errs) > 0 {
		return nil // It is invalid, as its validation says.
	}
	var formats, sets []string
	visit := func(s *apiextensions.JSONSchemaProps) bool {
		formats = append(formats, unknownFormats(s)...)
		if text := setOfObjects(s); text != "" {
			sets = append(sets, text)
		}
		return false
	}
	for _, version := range in.Spec.Versions {
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			validation.SchemaHas(version.Schema.OpenAPIV3Schema, visit)
		}
	}
	if in.Spec.Validation != nil && in.Spec.Validation.OpenAPIV3Schema != nil {
		validation.SchemaHas(in.Spec.Validation.OpenAPIV3Schema, visit)
	}
	slices.Sort(sets)
	return slices.DeleteFunc(append(formats, slices.Compact(sets)...), func(text string) bool { return had[text] })
}

// unknownFormats returns a warning if a schema has a format that nothing checks.
func unknownFormats(s *apiextensions.JSONSchemaProps) []string {
	if s.Format == "" {
		return nil
	}
	var found []string
	schema := &spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
	for _, format := range apiservervalidation.GetUnrecognizedFormats(schema, environment.DefaultCompatibilityVersion()) {
		found = append(found, fmt.Sprintf("unrecognized format %q", format))
	}
	return found
}

// setOfObjects returns a warning if a schema is that of a set whose items cannot be told apart.
func setOfObjects(s *apiextensions.JSONSchemaProps) string {
	if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
		return ""
	}
	switch kind := s.Items.Schema.Type; kind {
	case "object", "array":
		return fmt.Sprintf("x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", kind)
	}
	return ""
}
