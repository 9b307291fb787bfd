package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Others are the documents that other servers have. They do not change.
type Others struct {
	// URLs are where clients find those of OpenAPI v3, by their names, such as apis/apps/v1.
	URLs map[string]string
	// Swaggers are those of OpenAPI v2, which become a part of this server's.
	Swaggers []*spec.Swagger
}

// OpenAPI implements Source.
func (o *Others) OpenAPI() *Others { return o }

// Source knows the documents of other servers. They come before those of this server.
type Source interface {
	// OpenAPI returns the documents as they are now: the same Others as long as they are the same.
	OpenAPI() *Others
}

// joined are documents that also tell of what other servers serve.
type joined struct {
	index, v2 *document
	server    *server
	others    *Others
}

// join returns the documents of a server, with those of others. They are built once.
func (h *Handler) join(s *server, others *Others) *joined {
	if known := h.joined.Load(); known != nil && known.server == s && known.others == others {
		return known
	}
	next := &joined{server: s, others: others}
	next.index = &document{build: func() ([]byte, error) { return joinIndex(s.index, others.URLs) }}
	next.v2 = &document{convert: handler.ToProtoBinary, build: func() ([]byte, error) { return joinV2(s.v2, others.Swaggers) }}
	h.joined.Store(next)
	return next
}

// text returns a document as JSON.
func (d *document) text() ([]byte, error) {
	own, err := d.encoded(false)
	if err != nil {
		return nil, err
	}
	return own.plain()
}

// joinIndex returns an index of OpenAPI v3 with further documents.
func joinIndex(own *document, urls map[string]string) ([]byte, error) {
	text, err := own.text()
	if err != nil {
		return nil, err
	}
	var index handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("reading the index of OpenAPI documents: %w", err)
	}
	for name, at := range urls {
		index.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: at}
	}
	return encode(index, nil)
}

// joinV2 returns OpenAPI v2 with what other documents have beside it. Where two have the same name, such as
// that of a type that all servers know, this server's counts.
func joinV2(own *document, others []*spec.Swagger) ([]byte, error) {
	text, err := own.text()
	if err != nil {
		return nil, err
	}
	spans, err := spansOf(text)
	if err != nil {
		return nil, err
	}
	has := [sections]map[string]json.RawMessage{}
	for at, where := range spans {
		if err := json.Unmarshal(slices.Concat([]byte("{"), text[where.start:where.end], []byte("}")), &has[at]); err != nil {
			return nil, fmt.Errorf("reading OpenAPI v2: %w", err)
		}
	}
	var added [sections]bytes.Buffer
	for _, other := range others {
		if other.Paths != nil {
			err = errors.Join(err, add(&added[pathsSection], has[pathsSection], other.Paths.Paths))
		}
		err = errors.Join(err, add(&added[modelsSection], has[modelsSection], other.Definitions), add(&added[parametersSection], has[parametersSection], other.Parameters))
	}
	if err != nil {
		return nil, fmt.Errorf("joining OpenAPI v2 of another server: %w", err)
	}
	order := []section{pathsSection, modelsSection, parametersSection}
	slices.SortFunc(order, func(a, b section) int { return spans[a].end - spans[b].end })
	var joined bytes.Buffer
	from := 0
	for _, at := range order {
		if len(has[at]) > 0 { // Otherwise it has no such section, or an empty one.
			joined.Write(text[from:spans[at].end])
			joined.Write(added[at].Bytes())
			from = spans[at].end
		}
	}
	joined.Write(text[from:])
	return joined.Bytes(), nil
}

// add appends members that are not known yet to a section which is not empty.
func add[T any](to *bytes.Buffer, known map[string]json.RawMessage, members map[string]T) error {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if _, has := known[name]; has || known == nil {
			continue
		}
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		value, err := json.Marshal(members[name])
		if err != nil {
			return err
		}
		known[name] = value
		for _, part := range [][]byte{[]byte(","), key, []byte(":"), value} {
			to.Write(part)
		}
	}
	return nil
}
