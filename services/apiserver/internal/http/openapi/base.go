package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/services/apiserver/internal/http/openapi/generated"
)

// section is a map of a document, to which each custom kind adds something.
type section int

const (
	pathsSection section = iota
	modelsSection
	parametersSection // only in OpenAPI v2
	sections
)

// sectionAt returns the section at a place in a document; sections for any other place.
func sectionAt(place string) section {
	switch place {
	case "paths":
		return pathsSection
	case "definitions", "components.schemas":
		return modelsSection
	case "parameters":
		return parametersSection
	}
	return sections
}

// span is a part of a text: where a section's members are.
type span struct{ start, end int }

// spansOf returns where the sections of a document are. Those that it lacks are empty, at its start.
func spansOf(text []byte) ([sections]span, error) {
	var found [sections]span
	decoder := json.NewDecoder(bytes.NewReader(text))
	var members func(below string) error
	members = func(below string) error {
		if _, err := decoder.Token(); err != nil { // The opening brace.
			return err
		}
		for decoder.More() {
			key, err := decoder.Token()
			if err != nil {
				return err
			}
			place := below + fmt.Sprint(key)
			if place == "components" {
				if err := members("components."); err != nil {
					return err
				}
				continue
			}
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				return err
			}
			if at := sectionAt(place); at < sections {
				end := int(decoder.InputOffset())
				found[at] = span{end - len(value) + 1, end - 1}
			}
		}
		_, err := decoder.Token()
		return err
	}
	if err := members(""); err != nil {
		return found, fmt.Errorf("reading an OpenAPI document: %w", err)
	}
	return found, nil
}

// base is a document of built-in kinds, to which fragments of custom kinds can be added.
type base struct {
	document
	// spans and has are known when the document is built: where its sections are, and the definitions and
	// parameters that it has.
	spans [sections]span
	has   [sections]map[string]bool
}

// newBase returns a base that build builds. It returns the document, its definitions and its parameters.
func newBase(convert func([]byte) ([]byte, error), build func() (text []byte, models, parameters map[string]bool, err error)) *base {
	b := &base{}
	b.convert = convert
	b.build = func() ([]byte, error) {
		text, models, parameters, err := build()
		if err != nil {
			return nil, err
		}
		b.has = [sections]map[string]bool{modelsSection: models, parametersSection: parameters}
		b.spans, err = spansOf(text)
		return text, err
	}
	return b
}

// base returns OpenAPI v2 of the subjects, which are built in.
func (d documents) base() *base {
	return newBase(handler.ToProtoBinary, func() ([]byte, map[string]bool, map[string]bool, error) {
		built, err := d.builtinV2()
		if err != nil {
			return nil, nil, nil, err
		}
		text, err := built.MarshalJSON() // As the library does; json.Marshal would also escape HTML.
		return text, namesIn(built.Definitions), namesIn(built.Parameters), err
	})
}

// baseOf returns OpenAPI v3 of the subjects, which are built in and of one group and version, if there are any.
func (d documents) baseOf(gv schema.GroupVersion) *base {
	return newBase(handler3.ToV3ProtoBinary, func() ([]byte, map[string]bool, map[string]bool, error) {
		if len(d.subjects) == 0 {
			return []byte(customFrame), nil, nil, nil
		}
		built, err := d.builtinV3(gv)
		if err != nil {
			return nil, nil, nil, err
		}
		text, err := encode(built, nil)
		return text, namesIn(built.Components.Schemas), nil, err
	})
}

// customFrame is OpenAPI v3 of a group and version of custom kinds, without them. Kubernetes gives it another
// title and version than other documents, and no way to authenticate.
const customFrame = `{"openapi":"3.0.0","info":{"title":"Kubernetes CRD Swagger","version":"v0.1.0"},"paths":{},"components":{"schemas":{}}}`

func namesIn[T any](of map[string]T) map[string]bool {
	names := make(map[string]bool, len(of))
	for name := range of {
		names[name] = true
	}
	return names
}

// builtinV2 builds OpenAPI v2 of the subjects, which are built in.
func (d documents) builtinV2() (*spec.Swagger, error) {
	return d.v2(append(containers(d.subjects, d.types), aboutAll(d.builtin())...), generated.GetOpenAPIDefinitions)
}

// builtinV3 builds OpenAPI v3 of a group and version, which all subjects have. They are built in.
func (d documents) builtinV3(gv schema.GroupVersion) (*spec3.OpenAPI, error) {
	paths := append(containers(d.subjects, d.types), resourceLists(d.builtin(), &gv)...)
	return d.v3(paths, d.inV3.generated.definitions)
}

// documentOf returns OpenAPI v3 of a group and version, which all subjects have. all has the fragments of the
// custom ones.
func (d documents) documentOf(gv schema.GroupVersion, all map[subject]fragments) *document {
	builtin, custom := d.split()
	if len(custom.subjects) == 0 {
		return &document{of: d.subjects, convert: handler3.ToV3ProtoBinary, build: func() ([]byte, error) { return encode(d.builtinV3(gv)) }}
	}
	under, parts := builtin.baseOf(gv), partsOf(custom.subjects, all, func(f fragments) *fragment { return f.v3 })
	return &document{of: d.subjects, convert: handler3.ToV3ProtoBinary, build: func() ([]byte, error) { return under.with(custom, d.inV3, parts) }}
}

// with returns the document with fragments added. d builds them, unless they are built.
func (b *base) with(d documents, in *dialect, parts []*fragment) ([]byte, error) {
	encoded, err := b.encoded(false)
	if err != nil {
		return nil, err
	}
	text, err := encoded.plain()
	if err != nil {
		return nil, err
	}
	size, shared := len(text), [sections]map[string]bool{{}, {}, {}}
	for _, part := range parts {
		if err := part.ensure(d, in); err != nil {
			return nil, err
		}
		size += part.own[pathsSection].size + part.own[modelsSection].size + 2
		for at := range sections {
			for _, name := range part.shared[at] {
				shared[at][name] = shared[at][name] || !b.has[at][name]
			}
		}
	}
	joined, from := joiner{text: make([]byte, 0, size+sharedSize)}, 0
	for at, place := range b.spans {
		if place.end < from {
			continue // OpenAPI v3 has no such section.
		}
		joined.text = append(joined.text, text[from:place.end]...)
		joined.some, from = place.start < place.end, place.end
		for _, name := range slices.Sorted(maps.Keys(shared[at])) {
			if shared[at][name] {
				joined.add(in.member(section(at), name))
			}
		}
		for _, part := range parts {
			if own := part.own[at]; own != nil && own.size > 0 {
				if err := joined.unpack(own); err != nil {
					return nil, err
				}
			}
		}
	}
	return append(joined.text, text[from:]...), nil
}

// sharedSize is about how much text the definitions are that custom kinds share.
const sharedSize = 64 << 10

// joiner joins the members of a JSON object.
type joiner struct {
	text     []byte
	some     bool // The object has members already.
	unzipper gzip.Reader
}

func (j *joiner) next() {
	if j.some {
		j.text = append(j.text, ',')
	}
	j.some = true
}

func (j *joiner) add(member []byte) {
	j.next()
	j.text = append(j.text, member...)
}

func (j *joiner) unpack(members *encoding) error {
	j.next()
	start := len(j.text)
	j.text = slices.Grow(j.text, members.size)[:start+members.size]
	return members.unpack(&j.unzipper, j.text[start:])
}
