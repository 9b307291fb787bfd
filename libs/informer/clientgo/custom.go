package clientgo

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

const (
	// knownFor is how long the kind of a custom resource counts as known without another look.
	knownFor = time.Minute
	// maxCustom bounds the custom resources that are known at a time, maxDiscovery the size of an answer
	// about those of a group and version, in bytes.
	maxCustom    = 4096
	maxDiscovery = 4 << 20
)

// custom knows the kinds of custom resources, by the apiserver's discovery: no right is needed for that.
// Discovery tells by a hash which version etcd holds, and so the bus; only that one is followed.
type custom struct {
	prefix   string
	patience time.Duration

	mu    sync.Mutex
	known map[schema.GroupVersionResource]discovered
}

// discovered is what discovery has told of a resource. The kind is nil if the bus does not have it, or not in
// this version.
type discovered struct {
	kind *scheme.Kind
	at   time.Time
}

func newCustom(prefix string, patience time.Duration) *custom {
	return &custom{prefix: prefix, patience: patience, known: map[schema.GroupVersionResource]discovered{}}
}

// kind returns the kind of a resource that is not built in. It returns nil if the apiserver must answer
// requests for it. req is a request for it, and next carries requests to the apiserver. As long as discovery
// tells the same, the kind is the very same.
func (c *custom) kind(req *http.Request, next http.RoundTripper, gvr schema.GroupVersionResource) *scheme.Kind {
	if gvr.Group == "" {
		return nil
	}
	c.mu.Lock()
	was, found := c.known[gvr]
	c.mu.Unlock()
	now := time.Now()
	if found && now.Sub(was.at) < knownFor {
		return was.kind
	}
	resources, err := c.discover(req, next, gvr.GroupVersion())
	if err != nil {
		return nil // Unknown for now: the next request asks again.
	}
	kind := kindIn(resources, gvr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.known[gvr]; reflect.DeepEqual(was.kind, kind) {
		kind = was.kind
	}
	if len(c.known) >= maxCustom {
		clear(c.known)
	}
	c.known[gvr] = discovered{kind, now}
	return kind
}

// kindIn returns the kind of a resource if discovery has it with list and watch, in the version in which etcd
// holds it; else nil.
func kindIn(resources []metav1.APIResource, gvr schema.GroupVersionResource) *scheme.Kind {
	for i := range resources {
		one := &resources[i]
		gvk := gvr.GroupVersion().WithKind(one.Kind)
		if one.Name != gvr.Resource || one.StorageVersionHash != storageHash(gvk) ||
			!slices.Contains(one.Verbs, "list") || !slices.Contains(one.Verbs, "watch") {
			continue
		}
		return &scheme.Kind{
			GroupVersionKind: gvk, Storage: gvk, Custom: true, List: one.Kind + "List", Resource: one.Name,
			Singular: one.SingularName, Namespaced: one.Namespaced,
		}
	}
	return nil
}

// storageHash returns the hash by which discovery names the version in which etcd holds a resource.
// https://github.com/kubernetes/kubernetes/blob/v1.37.1/staging/src/k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go
func storageHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// discover asks the apiserver for the resources of a group and version, under the identity of req.
func (c *custom) discover(req *http.Request, next http.RoundTripper, gv schema.GroupVersion) ([]metav1.APIResource, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.patience)
	defer cancel()
	address := *req.URL
	address.Path, address.RawPath, address.RawQuery = c.prefix+"/apis/"+gv.String(), "", ""
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range req.Header {
		if isIdentity(name) || name == "User-Agent" {
			asked.Header[name] = values
		}
	}
	asked.Header.Set("Accept", runtime.ContentTypeJSON)
	answer, err := next.RoundTrip(asked)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxDiscovery))
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("asking for the resources of %s: %s", gv, answer.Status)
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("reading the resources of %s: %w", gv, err)
	}
	return list.APIResources, nil
}

// customSize returns about how many bytes the encoding of a custom resource has.
func customSize(obj *unstructured.Unstructured) int { return sizeOfValue(obj.Object) }

func sizeOfValue(value any) int {
	const scalar = 8
	size := scalar
	switch value := value.(type) {
	case map[string]any:
		for name, one := range value {
			size += len(name) + sizeOfValue(one)
		}
	case []any:
		for _, one := range value {
			size += sizeOfValue(one)
		}
	case string:
		size += len(value)
	}
	return size
}
