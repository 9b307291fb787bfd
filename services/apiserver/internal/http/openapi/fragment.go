package openapi

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// dialect is OpenAPI v2 or v3, with what its fragments have in common. It is safe for concurrent use.
type dialect struct {
	v2 bool
	// models returns the definitions to which those of custom kinds refer.
	models func() models

	// generated are the definitions of types.
	generated shared

	mu sync.Mutex
	// members are definitions and parameters that fragments share, encoded with their names.
	members [sections]map[string][]byte
}

func newDialect(v2 bool) *dialect {
	return &dialect{
		v2: v2, models: sync.OnceValue(func() models { return customModels(v2) }),
		members: [sections]map[string][]byte{modelsSection: {}, parametersSection: {}},
	}
}

// member returns a definition or parameter, encoded with its name, that a fragment shares.
func (in *dialect) member(at section, name string) []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.members[at][name]
}

// share keeps definitions or parameters, and returns their names.
func share[T any](in *dialect, at section, all map[string]T) ([]string, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	names := make([]string, 0, len(all))
	for name, one := range all {
		names = append(names, name)
		if in.members[at][name] != nil {
			continue
		}
		text, err := json.Marshal(map[string]T{name: one})
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", name, err)
		}
		in.members[at][name] = text[1 : len(text)-1]
	}
	return names, nil
}

// fragment is what documents have of one custom kind. It is built when a document first needs it.
type fragment struct {
	of subject

	mu sync.Mutex
	// own are the members of paths and models that are the kind's; nil until they are built.
	own [sections]*encoding
	// shared are the names of definitions and parameters to which own refers.
	shared [sections][]string
}

// fragments are those of one custom kind in both dialects.
type fragments struct{ v2, v3 *fragment }

// partsOf returns one fragment of each subject.
func partsOf(subjects []subject, all map[subject]fragments, which func(fragments) *fragment) []*fragment {
	parts := make([]*fragment, len(subjects))
	for i, one := range subjects {
		parts[i] = which(all[one])
	}
	return parts
}

// ensure builds the fragment unless it is built.
func (f *fragment) ensure(d documents, in *dialect) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own[pathsSection] != nil {
		return nil
	}
	build := f.buildV3
	if in.v2 {
		build = f.buildV2
	}
	text, err := build(d, in)
	if err != nil {
		return fmt.Errorf("describing %s: %w", f.of.GroupVersionKind, err)
	}
	spans, err := spansOf(text)
	if err != nil {
		return err
	}
	zipper, err := newZipper()
	if err != nil {
		return err
	}
	var own [sections]*encoding
	for _, at := range []section{pathsSection, modelsSection} {
		if own[at], err = compress(zipper, text[spans[at].start:spans[at].end]); err != nil {
			return err
		}
	}
	f.own = own
	return nil
}

// names returns the names of the models of the kind and of its list.
func (f *fragment) names() (object, list string) {
	return modelOf(f.of.Kind, false).name, modelOf(f.of.Kind, true).name
}

// definitions returns what returns the definitions of the kind, and those to which they refer.
func (f *fragment) definitions(in *dialect) common.GetOpenAPIDefinitions {
	return func(common.ReferenceCallback) models {
		found := cloned(in.models())
		object, list := f.names()
		found[object] = common.OpenAPIDefinition{Schema: f.of.object(in.v2), Dependencies: []string{kinds.ObjectMetaModel}}
		found[list] = common.OpenAPIDefinition{Schema: f.of.list(in.v2), Dependencies: []string{object, kinds.ListMetaModel}}
		return found
	}
}

// takeOwn moves the definitions of the kind and of its list out of others.
func takeOwn[T any](f *fragment, from map[string]T) map[string]T {
	own := map[string]T{}
	object, list := f.names()
	for _, name := range []string{object, list} {
		if one, ok := from[name]; ok {
			own[name] = one
			delete(from, name)
		}
	}
	return own
}

// buildV2 builds OpenAPI v2 of the kind alone.
func (f *fragment) buildV2(d documents, in *dialect) (text []byte, err error) {
	built, err := d.v2(containers([]subject{f.of}, d.types), f.definitions(in))
	if err != nil {
		return nil, err
	}
	own := takeOwn(f, built.Definitions)
	if f.shared[modelsSection], err = share(in, modelsSection, built.Definitions); err != nil {
		return nil, err
	}
	if f.shared[parametersSection], err = share(in, parametersSection, built.Parameters); err != nil {
		return nil, err
	}
	return spec.Swagger{SwaggerProps: spec.SwaggerProps{Paths: built.Paths, Definitions: own}}.MarshalJSON()
}

// buildV3 builds OpenAPI v3 of the kind alone.
func (f *fragment) buildV3(d documents, in *dialect) (text []byte, err error) {
	built, err := d.v3(containers([]subject{f.of}, d.types), f.definitions(in))
	if err != nil {
		return nil, err
	}
	own := takeOwn(f, built.Components.Schemas)
	if f.shared[modelsSection], err = share(in, modelsSection, built.Components.Schemas); err != nil {
		return nil, err
	}
	return (&spec3.OpenAPI{Paths: built.Paths, Components: &spec3.Components{Schemas: own}}).MarshalJSON()
}
