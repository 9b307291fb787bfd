package aggregatedkinds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/garboard/garboard/libs/scheme"
)

const (
	// timeout is how long an API has to say which resources it has.
	timeout = 10 * time.Second
	// atOnce is how many APIs are asked at a time.
	atOnce = 8
	// maxResources is how many resources that can be deleted one version may have. Each of them costs a watch.
	maxResources = 500
)

// Resource is a resource of an aggregated API.
type Resource struct {
	Kind *scheme.Kind
	// Listed reports whether the API lists its objects.
	Listed bool

	verbs []string // sorted
}

func (r Resource) supports(verbs ...string) bool {
	return !slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(r.verbs, verb) })
}

// answer is what one version of an API says.
type answer struct {
	version   schema.GroupVersion
	resources []Resource
	err       error
}

// apis returns the versions that other servers serve, those that their group prefers first.
func (k *Kinds) apis() []schema.GroupVersion {
	var services []*apiService
	for _, one := range k.informer.Indexer().List() {
		if one.Spec.Service != nil {
			services = append(services, one)
		}
	}
	slices.SortFunc(services, func(a, b *apiService) int {
		return cmp.Or(
			strings.Compare(a.Spec.Group, b.Spec.Group),
			cmp.Compare(b.Spec.VersionPriority, a.Spec.VersionPriority),
			apiversion.CompareKubeAwareVersionStrings(b.Spec.Version, a.Spec.Version),
		)
	})
	versions := make([]schema.GroupVersion, len(services))
	for i, one := range services {
		versions[i] = schema.GroupVersion{Group: one.Spec.Group, Version: one.Spec.Version}
	}
	return versions
}

// ask returns what versions say, in their order, and an error that names those that failed.
func (k *Kinds) ask(ctx context.Context, versions []schema.GroupVersion) ([]answer, error) {
	answers := make([]answer, len(versions))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, version := range versions {
		group.Go(func() error {
			resources, err := k.resources(ctx, version)
			answers[i] = answer{version: version, resources: resources, err: err}
			return nil
		})
	}
	_ = group.Wait() // Each answer has its own error.
	var failed []string
	for i := range answers {
		if err := answers[i].err; err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", answers[i].version, err))
		}
	}
	if len(failed) == 0 {
		return answers, nil
	}
	return answers, &Incomplete{Failed: failed}
}

// Incomplete is the error when some APIs do not say which resources they have.
type Incomplete struct {
	// Failed has a version and its error in each element, in the order of their groups.
	Failed []string
}

// Error returns Kubernetes' text (client-go, ErrGroupDiscoveryFailed).
func (e *Incomplete) Error() string {
	return "unable to retrieve the complete list of server APIs: " + strings.Join(e.Failed, ", ")
}

// resources asks one version for its resources.
func (k *Kinds) resources(ctx context.Context, version schema.GroupVersion) ([]Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := k.client.Document(ctx, "/apis/"+version.Group+"/"+version.Version)
	if err != nil {
		return nil, err
	}
	list := &metav1.APIResourceList{}
	if err := json.Unmarshal(data, list); err != nil {
		return nil, fmt.Errorf("reading the list of resources: %w", err)
	}
	var found []Resource
	var faults []error
	for i := range list.APIResources {
		one := &list.APIResources[i]
		if strings.Contains(one.Name, "/") || !slices.Contains(one.Verbs, "delete") {
			continue // A subresource or, in an API of metrics, perhaps one of thousands of metrics.
		}
		// The name becomes a part of paths, of requests that may do anything.
		if wrong := content.IsPathSegmentName(one.Name); one.Name == "" || len(wrong) > 0 || one.Kind == "" {
			faults = append(faults, fmt.Errorf("the resource %q of kind %q has no valid name", one.Name, one.Kind))
			continue
		}
		found = append(found, resource(version, one))
	}
	if len(found) > maxResources {
		faults = append(faults, fmt.Errorf("there are %d resources that can be deleted, more than %d", len(found), maxResources))
	}
	return found, errors.Join(faults...)
}

func resource(version schema.GroupVersion, of *metav1.APIResource) Resource {
	gvk := version.WithKind(of.Kind)
	verbs := slices.Sorted(slices.Values(of.Verbs))
	return Resource{
		Kind: &scheme.Kind{
			GroupVersionKind: gvk, Storage: gvk, Custom: true, Resource: of.Name, Singular: of.SingularName, Namespaced: of.Namespaced,
			DeletedOneByOne: !slices.Contains(verbs, "deletecollection"),
		},
		Listed: slices.Contains(verbs, "list"), verbs: verbs,
	}
}

// reuse returns the resources that there are now, and for each that has not changed the one that there was.
func reuse(before, now []Resource) []Resource {
	same := func(a, b Resource) bool {
		return a.Kind.GroupVersionKind == b.Kind.GroupVersionKind && a.Kind.Resource == b.Kind.Resource &&
			a.Kind.Namespaced == b.Kind.Namespaced && slices.Equal(a.verbs, b.verbs)
	}
	for i := range now {
		if at := slices.IndexFunc(before, func(was Resource) bool { return same(was, now[i]) }); at >= 0 {
			now[i] = before[at]
		}
	}
	return now
}
