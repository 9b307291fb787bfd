package validatingpolicystatus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// mostKinds is how many kinds one rule contributes. The value is Kubernetes'.
	mostKinds = 10
	// mostResources is how many resources of a policy are looked up.
	mostResources = 10_000
)

// kindsOf returns the kinds that a policy names without wildcards, sorted. A resource that is unknown is
// looked for again when all definitions are known.
func (c *checker) kindsOf(ctx context.Context, constraints *registrationv1.MatchResources) ([]schema.GroupVersionKind, error) {
	if constraints == nil {
		return nil, nil
	}
	found := sets.New[schema.GroupVersionKind]()
	left, refreshed := mostResources, false
	for i := range constraints.ResourceRules {
		count := 0
		for resource := range resourcesOf(&constraints.ResourceRules[i].Rule) {
			if left--; left < 0 {
				return sorted(found), nil
			}
			kinds := c.kindsFor(resource)
			if len(kinds) == 0 && !refreshed {
				refreshed = true
				if err := c.definitions.Refresh(ctx); err != nil {
					return nil, fmt.Errorf("looking for the kinds of custom resources: %w", err)
				}
				kinds = c.kindsFor(resource)
			}
			for _, kind := range kinds {
				found.Insert(kind)
				if count++; count == mostKinds {
					return sorted(found), nil // As in Kubernetes, other rules are then not read.
				}
			}
		}
	}
	return sorted(found), nil
}

// resourcesOf returns the resources that a rule names; none of a group or a version with wildcards.
func resourcesOf(rule *registrationv1.Rule) func(yield func(schema.GroupVersionResource) bool) {
	exact := func(names []string) []string {
		if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "*") }) {
			return nil
		}
		return slices.Sorted(slices.Values(names))
	}
	resources := slices.DeleteFunc(slices.Sorted(slices.Values(rule.Resources)), func(name string) bool {
		return strings.ContainsAny(name, "*/")
	})
	groups, versions := exact(rule.APIGroups), exact(rule.APIVersions)
	return func(yield func(schema.GroupVersionResource) bool) {
		for _, group := range groups {
			for _, version := range versions {
				for _, resource := range resources {
					if !yield(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}) {
						return
					}
				}
			}
		}
	}
}

// kindsFor returns the kinds of a resource, by its plural or singular name. As for Kubernetes' RESTMapper,
// the core group, which is empty, stands for any group.
func (c *checker) kindsFor(of schema.GroupVersionResource) []schema.GroupVersionKind {
	var found []schema.GroupVersionKind
	name := strings.ToLower(of.Resource)
	for _, kind := range c.client.Table().Kinds() {
		if kind.Unserved || kind.Version != of.Version || of.Group != "" && kind.Group != of.Group {
			continue
		}
		if kind.Resource == name || kind.Singular == name {
			found = append(found, kind.GroupVersionKind)
		}
	}
	return found
}

func sorted(kinds sets.Set[schema.GroupVersionKind]) []schema.GroupVersionKind {
	return slices.SortedFunc(func(yield func(schema.GroupVersionKind) bool) {
		for kind := range kinds {
			if !yield(kind) {
				return
			}
		}
	}, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
}
