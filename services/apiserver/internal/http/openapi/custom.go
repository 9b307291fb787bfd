package openapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi/generated"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// selectableFields names, on a definition and its list, the fields by which lists can select.
const selectableFields = "x-kubernetes-selectable-fields"

// models are definitions by the canonical names of their types.
type models = map[string]common.OpenAPIDefinition

// model stands for the Go type that a custom kind, or its list, does not have.
type model struct{ name string }

// OpenAPICanonicalTypeName returns the name of the model in the documents.
func (m model) OpenAPICanonicalTypeName() string { return m.name }

// modelOf returns the model of a custom kind, or of its list, named as Kubernetes names it:
// com.example.v1.Gadget.
func modelOf(kind *scheme.Kind, list bool) model {
	parts, named := strings.Split(kind.Group, "."), kind.GroupVersionKind
	slices.Reverse(parts)
	if list {
		named = kind.ListKind()
	}
	return model{strings.Join(append(parts, kind.Version, named.Kind), ".")}
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

// customModels returns the definitions to which the paths and definitions of custom kinds refer. To
// generate all others for each kind would take most of the time.
func customModels(v2 bool) models {
	all := generated.GetOpenAPIDefinitions(func(name string) spec.Ref { return kinds.ModelRef(name, v2) })
	found := models{}
	var add func(names ...string)
	add = func(names ...string) {
		for _, name := range names {
			if _, known := found[name]; !known {
				found[name] = all[name]
				add(all[name].Dependencies...)
			}
		}
	}
	add(kinds.ObjectMetaModel, kinds.ListMetaModel)
	for _, sample := range []any{&metav1.Status{}, &metav1.Patch{}, &metav1.DeleteOptions{}, &autoscalingv1.Scale{}} {
		add(util.GetCanonicalTypeName(sample))
	}
	return found
}

// cloned returns definitions that the library may complete by extensions.
func cloned(of models) models {
	copies := make(models, len(of))
	for name, one := range of {
		one.Schema.Extensions = maps.Clone(one.Schema.Extensions)
		copies[name] = one
	}
	return copies
}

// shared are the generated definitions, which many documents that are built at once have in common: to
// generate them takes as long as the rest of a document. Nobody keeps them longer.
type shared struct {
	mu    sync.Mutex
	users int
	found models // nil until they are needed
}

// during keeps the definitions while work runs.
func (s *shared) during(work func() error) error {
	s.use(1)
	defer s.use(-1)
	return work()
}

func (s *shared) use(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users += more; s.users == 0 {
		s.found = nil
	}
}

// definitions returns the definitions for one document.
func (s *shared) definitions(ref common.ReferenceCallback) models {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return generated.GetOpenAPIDefinitions(ref)
	}
	if s.found == nil {
		s.found = generated.GetOpenAPIDefinitions(ref)
	}
	return cloned(s.found)
}

// object returns the schema of a custom kind.
func (s subject) object(v2 bool) spec.Schema {
	if s.definition == nil || s.definition.OpenAPI == nil {
		return s.extended(spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}, s.Kind.Kind)
	}
	return s.extended(*s.definition.OpenAPI.Schema(v2), s.Kind.Kind)
}

// list returns the schema of a custom kind's list.
func (s subject) list(v2 bool) spec.Schema {
	ref := func(model string) *spec.Schema {
		return &spec.Schema{SchemaProps: spec.SchemaProps{Ref: kinds.ModelRef(model, v2)}}
	}
	docs, name := metav1.TypeMeta{}.SwaggerDoc(), s.ListKind().Kind
	list := spec.Schema{SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{"object"}, Description: name + " is a list of " + s.Kind.Kind, Required: []string{"items"},
	}}
	list.SetProperty("apiVersion", *spec.StringProperty().WithDescription(docs["apiVersion"]))
	list.SetProperty("kind", *spec.StringProperty().WithDescription(docs["kind"]))
	list.SetProperty("metadata", *ref(kinds.ListMetaModel).WithDescription(metav1.PartialObjectMetadataList{}.SwaggerDoc()["metadata"]))
	list.SetProperty("items", *spec.ArrayProperty(ref(modelOf(s.Kind, false).name)).WithDescription("List of " + s.Resource +
		". More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"))
	return s.extended(list, name)
}

// extended returns a schema with the extensions that name its kind, and what it can be selected by.
func (s subject) extended(of spec.Schema, kind string) spec.Schema {
	of.AddExtension(gvkExtension, []any{gvkValue(s.GroupVersion().WithKind(kind))})
	if s.definition != nil && len(s.definition.FieldLabels) > 0 {
		var fields []any
		for _, label := range s.definition.FieldLabels {
			fields = append(fields, map[string]any{"fieldPath": label})
		}
		of.AddExtension(selectableFields, fields)
	}
	return of
}

// adaptToCustom changes a route to what Kubernetes documents of custom kinds.
func (r *route) adaptToCustom(kind *scheme.Kind, subresource string) {
	r.gvk, r.description = kind.GroupVersionKind, describeOperation(r.action, kind.Kind, subresource)
	r.produces, r.consumes = customTypes, customTypes
	switch r.action {
	case "get":
		r.parameters = forGet()
	case "deletecollection":
		r.parameters, r.request = forList(), nil
	case "patch":
		r.consumes, r.codes = customPatchTypes, []int{http.StatusOK}
	}
}

// customTypes and customPatchTypes are the media types of objects of custom kinds, and of patches of them.
var (
	customTypes      = []string{"application/json", "application/yaml"}
	customPatchTypes = []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
)

// describeOperation returns the description of an operation in Kubernetes' words.
func describeOperation(action, kind, subresource string) string {
	what := ""
	if subresource != "" {
		what = " " + subresource + " of"
	}
	switch action {
	case "list":
		return "list" + what + " objects of kind " + kind
	case "deletecollection":
		return "delete collection of" + what + " " + kind
	case "post":
		return "create" + what + article(kind) + kind
	case "delete":
		return "delete" + what + article(kind) + kind
	}
	verb := map[string]string{"get": "read", "put": "replace", "patch": "partially update"}[action]
	return verb + what + " the specified " + kind
}

// article returns the indefinite article of a noun, between spaces.
func article(noun string) string {
	if strings.ContainsAny(strings.ToLower(noun[:1]), "aeiou") {
		return " an "
	}
	return " a "
}
