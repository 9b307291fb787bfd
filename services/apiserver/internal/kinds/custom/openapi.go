package custom

import (
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// openAPIOf returns what clients read of a version's schema, which may be nil. keeps is the definition's
// preserveUnknownFields.
func openAPIOf(of *apiextensions.CustomResourceValidation, structural *schema.Structural, keeps bool) *kinds.OpenAPI {
	d := describer{keeps: keeps}
	if of != nil && of.OpenAPIV3Schema != nil && !validation.SchemaHasInvalidTypes(of.OpenAPIV3Schema) {
		d.structural = structural
	}
	return &kinds.OpenAPI{Schema: d.describe, PreserveUnknownFields: keeps}
}

// describer makes OpenAPI schemas of a structural schema, which it does not change.
type describer struct {
	structural *schema.Structural
	keeps      bool
}

// describe returns the schema in a document of OpenAPI v2 or v3. Clients take properties for all that there
// are. So a schema that allows others has none in v2, and neither has one that is not structural.
func (d describer) describe(v2 bool) *spec.Schema {
	if d.structural == nil || v2 && (d.keeps || d.structural.XPreserveUnknownFields) || len(schema.ValidateStructural(nil, d.structural)) > 0 {
		return &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
	}
	unfolded := d.structural.DeepCopy().Unfold()
	if v2 {
		unfolded = openapiv2.ToStructuralOpenAPIV2(unfolded)
	}
	described := unfolded.ToKubeOpenAPI()
	described.SetProperty("metadata", metadata(v2))
	docs := metav1.TypeMeta{}.SwaggerDoc()
	described.SetProperty("apiVersion", stringOf(docs["apiVersion"]))
	described.SetProperty("kind", stringOf(docs["kind"]))
	completeEmbedded(described, v2)
	return described
}

// The descriptions of what tells the type of an embedded resource, as Kubernetes words them.
const (
	embeddedVersion = "apiVersion defines the versioned schema of this representation of an object. " +
		"More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
	embeddedKind = "kind is a string value representing the type of this object. In CamelCase. " +
		"More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)

// completeEmbedded adds to a schema what objects within objects have, wherever it allows one. In v2 one
// that may have unknown fields stays without properties, since clients would refuse all others.
func completeEmbedded(s *spec.Schema, v2 bool) {
	if s == nil {
		return
	}
	for name, property := range s.Properties {
		completeEmbedded(&property, v2)
		s.Properties[name] = property
	}
	if s.Items != nil {
		completeEmbedded(s.Items.Schema, v2)
	}
	if s.AdditionalProperties != nil {
		completeEmbedded(s.AdditionalProperties.Schema, v2)
	}
	is := func(extension string) bool {
		set, ok := s.Extensions.GetBool(extension)
		return ok && set
	}
	if !is("x-kubernetes-embedded-resource") || v2 && is("x-kubernetes-preserve-unknown-fields") {
		return
	}
	s.SetProperty("apiVersion", stringOf(embeddedVersion))
	s.SetProperty("kind", stringOf(embeddedKind))
	s.SetProperty("metadata", metadata(v2))
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}

func stringOf(description string) spec.Schema {
	return *spec.StringProperty().WithDescription(description)
}

func metadata(v2 bool) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Ref: kinds.ModelRef(kinds.ObjectMetaModel, v2), Description: metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"],
	}}
}
