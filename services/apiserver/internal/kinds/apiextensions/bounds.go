package apiextensions

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/patterns"
)

// Kubernetes has no such bounds: definitions of the size that etcd accepts take all memory of its apiserver.
const (
	// maxRules bounds the CEL rules of all versions, each of which takes about 70 KB of memory.
	maxRules = 2000
	// maxPatterns bounds the size of the regular expressions of all versions: about 10 MB of memory.
	maxPatterns = 200_000
)

// extent is what the versions of a definition take of what is bounded.
type extent struct{ rules, patterns int }

func (e extent) exceeded() bool { return e.rules > maxRules || e.patterns > maxPatterns }

// extentOf returns the extent of a definition, or of its first versions if those exceed a bound already.
func extentOf(c *apiextensions.CustomResourceDefinition) extent {
	var e extent
	if c.Spec.Validation != nil && c.Spec.Validation.OpenAPIV3Schema != nil { // It is that of each version.
		e.add(c.Spec.Validation.OpenAPIV3Schema, max(1, len(c.Spec.Versions)))
	}
	for _, version := range c.Spec.Versions {
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil && !e.exceeded() {
			e.add(version.Schema.OpenAPIV3Schema, 1)
		}
	}
	return e
}

// add adds a schema that is used a number of times.
func (e *extent) add(schema *apiextensions.JSONSchemaProps, times int) {
	validation.SchemaHas(schema, func(s *apiextensions.JSONSchemaProps) bool {
		if s.Pattern != "" {
			e.patterns += times * patterns.Size(s.Pattern)
		}
		for _, rule := range s.XValidations {
			e.rules += times
			e.patterns += times * (patterns.InExpression(rule.Rule) + patterns.InExpression(rule.MessageExpression))
			if e.exceeded() {
				return true
			}
		}
		return e.exceeded()
	})
}

// validateExtent returns an error if a definition exceeds a bound. One that did so before may.
func validateExtent(c, old *apiextensions.CustomResourceDefinition) field.ErrorList {
	e, at := extentOf(c), field.NewPath("spec", "versions")
	if !e.exceeded() || old != nil && extentOf(old).exceeded() {
		return nil
	}
	if e.rules > maxRules {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{},
			fmt.Sprintf("must have at most %d x-kubernetes-validations in all schemas together", maxRules))}
	}
	return field.ErrorList{field.Invalid(at, field.OmitValueType{},
		fmt.Sprintf("the regular expressions of all schemas and rules must not compile to more than %d instructions together", maxPatterns))}
}
