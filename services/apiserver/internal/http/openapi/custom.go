package openapi

import (
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi/generated"
)

const (
	anyFields    = "x-kubernetes-preserve-unknown-fields"
	objectMeta   = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	listMetadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
)

// model stands for the Go type that a custom kind, or its list, does not have.
type model struct{ name string }

// OpenAPICanonicalTypeName returns the name of the model in the documents.
func (m model) OpenAPICanonicalTypeName() string { return m.name }

// modelOf returns the model of a custom kind, or of its list, named as Kubernetes names it:
// com.example.v1.Gadget.
func modelOf(kind *scheme.Kind, list bool) model {
	parts := strings.Split(kind.Group, ".")
	slices.Reverse(parts)
	name := strings.Join(append(parts, kind.Version, kind.Kind), ".")
	if list {
		name += "List"
	}
	return model{name}
}

// objectOf returns a sample object of a kind.
func objectOf(kind *scheme.Kind) any {
	if kind.Custom {
		return modelOf(kind, false)
	}
	return kind.New()
}

// listOf returns a sample list of a kind.
func listOf(kind *scheme.Kind) any {
	if kind.Custom {
		return modelOf(kind, true)
	}
	return kind.NewList()
}

// definitions returns the definitions of all types, with those of the custom kinds.
func (d documents) definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	found := generated.GetOpenAPIDefinitions(ref)
	for _, kind := range d.kinds {
		if !kind.Custom {
			continue
		}
		object, list := modelOf(kind, false).name, modelOf(kind, true).name
		found[object] = common.OpenAPIDefinition{Schema: customObject(ref), Dependencies: []string{objectMeta}}
		found[list] = common.OpenAPIDefinition{Schema: customList(ref, object), Dependencies: []string{object, listMetadata}}
	}
	return found
}

// customObject returns the schema of a custom kind: all fields but those of every object are unknown.
func customObject(ref common.ReferenceCallback) spec.Schema {
	s := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: typeMeta()}}
	s.Properties["metadata"] = spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(objectMeta)}}
	s.AddExtension(anyFields, true)
	return s
}

func customList(ref common.ReferenceCallback, object string) spec.Schema {
	s := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: typeMeta(), Required: []string{"items"}}}
	s.Properties["metadata"] = spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(listMetadata)}}
	s.Properties["items"] = *spec.ArrayProperty(&spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(object)}})
	return s
}

// customTypes returns the media types that objects of custom kinds, or patches of them, can have.
func customTypes(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(mediaType string) bool {
		return strings.Contains(mediaType, "protobuf") || strings.Contains(mediaType, "strategic-merge-patch")
	})
}

// typeMeta returns the properties by which an object says what it is.
func typeMeta() map[string]spec.Schema {
	return map[string]spec.Schema{"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty()}
}
