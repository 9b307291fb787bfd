package validatingpolicystatus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/client"
)

// refPrefix begins a reference to another schema of a document.
const refPrefix = "#/components/schemas/"

// schemas reads the schemas of kinds from the apiserver's OpenAPI documents, each once.
type schemas struct {
	client    client.Interface
	documents map[schema.GroupVersion]document
	declares  int
}

// document holds the schemas of an OpenAPI document, by name.
type document map[string]*spec.Schema

func (c *checker) newSchemas() *schemas {
	return &schemas{client: c.client, documents: map[schema.GroupVersion]document{}}
}

// declared returns the type of a kind's objects, nil for any; and whether the kind has a schema.
func (s *schemas) declared(ctx context.Context, kind schema.GroupVersionKind) (*apiservercel.DeclType, bool, error) {
	of, err := s.document(ctx, kind.GroupVersion())
	if err != nil {
		return nil, false, err
	}
	root, err := of.named(kind)
	if root == "" || err != nil {
		return nil, false, err
	}
	whole, err := of.resolved(of[root], []string{root})
	if err != nil {
		return nil, false, fmt.Errorf("reading the schema of %s: %w", kind, err)
	}
	made := common.SchemaDeclType(&openapi.Schema{Schema: whole}, true)
	if made == nil {
		return nil, true, nil
	}
	s.declares++
	return made.MaybeAssignTypeName(fmt.Sprintf("%s%d", kind.Kind, s.declares)), true, nil
}

// document returns the schemas of an API version; none if the apiserver has no document of it.
func (s *schemas) document(ctx context.Context, version schema.GroupVersion) (document, error) {
	if known, ok := s.documents[version]; ok {
		return known, nil
	}
	path := "/openapi/v3/apis/" + version.String()
	if version.Group == "" {
		path = "/openapi/v3/api/" + version.Version
	}
	var found struct {
		Components struct {
			Schemas document `json:"schemas"`
		} `json:"components"`
	}
	data, err := s.client.Document(ctx, path)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	default:
		if err := json.Unmarshal(data, &found); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	s.documents[version] = found.Components.Schemas
	return found.Components.Schemas, nil
}

// named returns the name of a kind's schema; empty if it has none.
func (d document) named(kind schema.GroupVersionKind) (string, error) {
	for name, of := range d {
		var kinds []schema.GroupVersionKind
		if err := of.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds); err != nil {
			return "", fmt.Errorf("reading of which kinds the schema %s is: %w", name, err)
		}
		if slices.Contains(kinds, kind) {
			return name, nil
		}
	}
	return "", nil
}

// resolved returns a schema with the schemas to which it refers in place of the references. A reference to
// one that it is within, whose names are above, becomes an object of which nothing is known.
func (d document) resolved(of *spec.Schema, above []string) (*spec.Schema, error) {
	if name := refOf(of); name != "" {
		if slices.Contains(above, name) {
			return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}, nil
		}
		if of = d[name]; of == nil {
			return nil, fmt.Errorf("it refers to %q, which is not there", name)
		}
		above = append(slices.Clip(above), name)
	}
	made := *of
	if len(of.Properties) > 0 {
		made.Properties = make(map[string]spec.Schema, len(of.Properties))
		for name, property := range of.Properties {
			whole, err := d.resolved(&property, above)
			if err != nil {
				return nil, err
			}
			made.Properties[name] = *whole
		}
	}
	if of.AdditionalProperties != nil && of.AdditionalProperties.Schema != nil {
		whole, err := d.resolved(of.AdditionalProperties.Schema, above)
		if err != nil {
			return nil, err
		}
		made.AdditionalProperties = &spec.SchemaOrBool{Allows: of.AdditionalProperties.Allows, Schema: whole}
	}
	if of.Items != nil && of.Items.Schema != nil {
		whole, err := d.resolved(of.Items.Schema, above)
		if err != nil {
			return nil, err
		}
		made.Items = &spec.SchemaOrArray{Schema: whole}
	}
	return &made, nil
}

// refOf returns the name of the schema to which a schema refers; empty if it is one itself. A reference may be
// in an allOf, beside a description.
func refOf(of *spec.Schema) string {
	if name, ok := strings.CutPrefix(of.Ref.String(), refPrefix); ok {
		return name
	}
	for i := range of.AllOf {
		if name := refOf(&of.AllOf[i]); name != "" {
			return name
		}
	}
	return ""
}
