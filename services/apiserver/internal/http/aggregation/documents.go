package aggregation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// documents returns the URL of the API's document of OpenAPI v3, by its name. A server that has none, or only
// OpenAPI v2, has no document.
func (r *remote) documents(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := r.get(ctx, strings.TrimSuffix(openAPIPath, "/"), http.Header{"Accept": {runtime.ContentTypeJSON}}, maxDescription)
	switch {
	case err != nil:
		return nil, err
	case found.code == http.StatusNotFound:
		return nil, nil
	case found.code != http.StatusOK:
		return nil, fmt.Errorf("bad status from %s: %d", openAPIPath, found.code)
	}
	var index handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(found.body, &index); err != nil {
		return nil, fmt.Errorf("reading the index of OpenAPI documents of %s: %w", r.name, err)
	}
	name := strings.TrimPrefix(r.path(), "/")
	told, has := index.Paths[name]
	if !has {
		return nil, nil
	}
	at, err := url.Parse(told.ServerRelativeURL)
	if err != nil || at.IsAbs() || at.Host != "" || at.Path != openAPIPath+name {
		return nil, errors.Join(fmt.Errorf("the OpenAPI document of %s is said to be at %q", r.name, told.ServerRelativeURL), err)
	}
	return map[string]string{name: at.String()}, nil
}

// maxSwagger is the size of the largest document of OpenAPI v2 that is read, in bytes. That of Kubernetes has
// half of it.
const maxSwagger = 8 << 20

// swagger is the part of a document of OpenAPI v2 that describes an API.
type swagger struct {
	*spec.Swagger        // nil if the server has none
	etag          string // of the document
}

// describeV2 asks a server for OpenAPI v2, unless it is still the same.
func (a *APIs) describeV2(ctx context.Context, r *remote) error {
	known := a.current.Load().served[schema.GroupVersion{Group: r.spec.Group, Version: r.spec.Version}]
	if known == nil {
		return nil
	}
	header := http.Header{"Accept": {runtime.ContentTypeJSON}}
	if known.swagger.etag != "" {
		header.Set("If-None-Match", known.swagger.etag)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := r.get(ctx, "/openapi/v2", header, maxSwagger)
	switch {
	case err != nil:
		return err
	case found.code == http.StatusNotModified:
		return nil
	case found.code == http.StatusNotFound:
		a.describe(r, func(known *api) { known.swagger = swagger{} })
		return nil
	case found.code != http.StatusOK:
		return fmt.Errorf("bad status from /openapi/v2: %d", found.code)
	}
	whole := &spec.Swagger{}
	if err := json.Unmarshal(found.body, whole); err != nil {
		return fmt.Errorf("reading OpenAPI v2 of %s: %w", r.name, err)
	}
	if whole.Paths == nil {
		whole.Paths = &spec.Paths{}
	}
	own, err := filtered(whole, r.path()+"/")
	if err != nil {
		return fmt.Errorf("reading OpenAPI v2 of %s: %w", r.name, err)
	}
	a.describe(r, func(known *api) { known.swagger = swagger{own, found.header.Get("Etag")} })
	return nil
}

// filtered returns the part of a document that describes the paths below one. Another server's document must
// not end this process, whatever the library finds in it.
func filtered(whole *spec.Swagger, below string) (own *spec.Swagger, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("it cannot be understood: %v", problem)
		}
	}()
	return aggregator.FilterSpecByPathsWithoutSideEffects(whole, []string{below}), nil
}
