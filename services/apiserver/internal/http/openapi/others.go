package openapi

import (
	"encoding/json"
	"fmt"

	"k8s.io/kube-openapi/pkg/handler3"
)

// Others are the documents of OpenAPI v3 that other servers have. They do not change.
type Others struct {
	// URLs are where clients find them, by their names, such as apis/apps/v1.
	URLs map[string]string
}

// OpenAPI implements Source.
func (o *Others) OpenAPI() *Others { return o }

// Source knows the documents of other servers. They come before those of this server.
type Source interface {
	// OpenAPI returns the documents as they are now: the same Others as long as they are the same.
	OpenAPI() *Others
}

// joined is the index of OpenAPI v3 with the documents of other servers.
type joined struct {
	document
	server *server
	others *Others
}

// join returns the index of a server's documents and of those of others. It is built once.
func (h *Handler) join(s *server, others *Others) *joined {
	if known := h.joined.Load(); known != nil && known.server == s && known.others == others {
		return known
	}
	next := &joined{server: s, others: others}
	next.build = func() ([]byte, error) {
		own, err := s.index.encoded(false)
		if err != nil {
			return nil, err
		}
		text, err := own.plain()
		if err != nil {
			return nil, err
		}
		var index handler3.OpenAPIV3Discovery
		if err := json.Unmarshal(text, &index); err != nil {
			return nil, fmt.Errorf("reading the index of OpenAPI documents: %w", err)
		}
		for name, at := range others.URLs {
			index.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: at}
		}
		return encode(index, nil)
	}
	h.joined.Store(next)
	return next
}
