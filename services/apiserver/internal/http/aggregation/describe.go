package aggregation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
)

const (
	// askTimeout bounds a question to a server. It is kube-aggregator's.
	askTimeout = 5 * time.Second
	// attempts is how many times an endpoint is asked whether an API is available, as in kube-aggregator. The
	// next attempt begins when one has failed, or has had no answer for attemptEvery.
	attempts     = 5
	attemptEvery = time.Second
	// maxDescription is the size of the largest description that is read, in bytes. The largest of
	// Kubernetes' own has a tenth of it.
	maxDescription = 4 << 20
)

// togetherKind is the kind of the aggregated form of discovery.
var togetherKind = schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}

// Check asks servers of the API of an APIService for its discovery document, and returns nil if one of them
// has it. It returns an error too if the APIService is faulty or gone.
func (a *APIs) Check(ctx context.Context, name string) error {
	r, err := a.remoteOf(name)
	if err != nil {
		return err
	}
	results := make(chan error, attempts)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel() // The others are not waited for: results has room for them.
	next := time.NewTicker(attemptEvery)
	defer next.Stop()
	begin := func() { go func() { results <- r.check(ctx) }() }
	begin()
	for begun, failed := 1, 0; failed < attempts; {
		select {
		case <-next.C:
		case err = <-results:
			if err == nil {
				return nil
			}
			failed++
		}
		if begun < attempts {
			begin()
			begun++
		}
	}
	return err
}

func (r *remote) check(ctx context.Context) error {
	found, err := r.get(ctx, r.path(), nil, maxDescription)
	if err == nil && (found.code < http.StatusOK || found.code >= http.StatusMultipleChoices) {
		err = fmt.Errorf("bad status from %s: %d", r.path(), found.code)
	}
	return err
}

// path returns where the API is.
func (r *remote) path() string {
	if r.spec.Group == "" {
		return "/api/" + r.spec.Version
	}
	return "/apis/" + r.spec.Group + "/" + r.spec.Version
}

// remoteOf returns the API of an APIService.
func (a *APIs) remoteOf(name string) (*remote, error) {
	for _, one := range a.current.Load().served {
		if one.object.Name == name {
			return one.remote, one.fault
		}
	}
	return nil, fmt.Errorf("there is no APIService %s with a Service", name)
}

// Describe asks a server of the API of an APIService what it serves, for discovery and OpenAPI. If it does not
// answer, what it said before remains, as stale.
func (a *APIs) Describe(ctx context.Context, name string) error {
	r, err := a.remoteOf(name)
	if err != nil {
		return err
	}
	resources, err := r.resources(ctx)
	a.describe(r, func(known *api) {
		if known.Current = err == nil; err == nil {
			known.Resources = resources
		}
	})
	if err != nil {
		return err
	}
	urls, err := r.documents(ctx)
	if err == nil {
		a.describe(r, func(known *api) { known.openAPI = urls })
	}
	return errors.Join(err, a.describeV2(ctx, r))
}

// resources returns what a server says it serves of the API: in the aggregated form, or else in the plain one.
func (r *remote) resources(ctx context.Context) ([]apidiscoveryv2.APIResourceDiscovery, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := r.get(ctx, "/apis", http.Header{"Accept": {clientdiscovery.AcceptV2}}, maxDescription)
	if err != nil {
		return nil, err
	}
	if together, _ := clientdiscovery.ContentTypeIsGVK(found.header.Get("Content-Type"), togetherKind); found.code == http.StatusOK && together {
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(found.body, &list); err != nil {
			return nil, fmt.Errorf("reading the discovery document of %s: %w", r.name, err)
		}
		for _, group := range list.Items {
			for _, version := range group.Versions {
				if group.Name == r.spec.Group && version.Version == r.spec.Version {
					return completed(version.Resources), nil
				}
			}
		}
		return nil, nil
	}
	found, err = r.get(ctx, r.path(), http.Header{"Accept": {runtime.ContentTypeJSON}}, maxDescription)
	switch {
	case err != nil:
		return nil, err
	case found.code != http.StatusOK:
		return nil, fmt.Errorf("bad status from %s: %d", r.path(), found.code)
	}
	var plain metav1.APIResourceList
	if err := json.Unmarshal(found.body, &plain); err != nil {
		return nil, fmt.Errorf("reading the discovery document of %s: %w", r.name, err)
	}
	return converted(plain, r.spec.Group, r.spec.Version), nil
}

// completed sets the kinds that are missing: clients of some versions fail without them.
func completed(resources []apidiscoveryv2.APIResourceDiscovery) []apidiscoveryv2.APIResourceDiscovery {
	for i := range resources {
		if resources[i].ResponseKind == nil {
			resources[i].ResponseKind = &metav1.GroupVersionKind{}
		}
		for j := range resources[i].Subresources {
			if resources[i].Subresources[j].ResponseKind == nil {
				resources[i].Subresources[j].ResponseKind = &metav1.GroupVersionKind{}
			}
		}
	}
	return resources
}

// converted returns the plain form as the aggregated one.
func converted(plain metav1.APIResourceList, group, version string) []apidiscoveryv2.APIResourceDiscovery {
	var resources []apidiscoveryv2.APIResourceDiscovery
	at := map[string]int{}
	place := func(name string) *apidiscoveryv2.APIResourceDiscovery {
		if _, known := at[name]; !known {
			at[name] = len(resources)
			resources = append(resources, apidiscoveryv2.APIResourceDiscovery{
				Resource: name, Scope: apidiscoveryv2.ScopeCluster, ResponseKind: &metav1.GroupVersionKind{},
			})
		}
		return &resources[at[name]]
	}
	for _, one := range plain.APIResources {
		kind := &metav1.GroupVersionKind{Group: one.Group, Version: one.Version, Kind: one.Kind}
		if one.Group == "" && one.Version == "" {
			kind.Group, kind.Version = group, version
		}
		name, subresource, below := strings.Cut(one.Name, "/")
		resource := place(name)
		if one.Namespaced {
			resource.Scope = apidiscoveryv2.ScopeNamespace
		}
		if below {
			resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: subresource, ResponseKind: kind, Verbs: one.Verbs,
			})
			continue
		}
		resource.ResponseKind, resource.Verbs, resource.SingularResource = kind, one.Verbs, one.SingularName
		resource.ShortNames, resource.Categories = one.ShortNames, one.Categories
	}
	return resources
}
