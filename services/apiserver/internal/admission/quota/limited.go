package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
)

// limited is a use of a resource that needs a quota which covers it.
type limited struct {
	Group    string `json:"apiGroup,omitempty"`
	Resource string `json:"resource"`
	// Contains are parts of names of quota resources.
	Contains []string                                   `json:"matchContains,omitempty"`
	Scopes   []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`
}

// load reads the limits of a document, which may be empty.
func load(data []byte) ([]limited, error) {
	var found struct {
		metav1.TypeMeta `json:",inline"`
		Limits          []limited `json:"limitedResources"`
	}
	if len(data) == 0 {
		return nil, nil
	}
	err := configuration.DecodeKind(data, &found, "ResourceQuotaConfiguration", "apiserver.config.k8s.io/v1")
	if err != nil { // It may have an older kind.
		older := configuration.DecodeKind(data, &found, "Configuration", "resourcequota.admission.k8s.io/v1beta1", "resourcequota.admission.k8s.io/v1alpha1")
		if older != nil {
			return nil, fmt.Errorf("reading the configuration: %w", errors.Join(err, older))
		}
	}
	for i, l := range found.Limits {
		if l.Resource == "" {
			return nil, fmt.Errorf("the configuration is invalid: %w", field.Required(field.NewPath("limitedResources").Index(i).Child("resource"), ""))
		}
	}
	return found.Limits, nil
}

// uncovered refuses an item that uses a limited resource, or is in a limited scope, unless one of the
// quotas of its namespace covers it.
func uncovered(limits []limited, quotas []*corev1.ResourceQuota, item Item, req *admission.Request) error {
	if len(limits) == 0 || item.Observed {
		return nil
	}
	unlimited := item
	unlimited.Observed = true
	for _, q := range quotas { // A quota that cannot measure the item refuses it first.
		if _, err := Evaluate(q, unlimited); err != nil {
			return admission.Forbidden(req, err)
		}
	}
	if !uses(quotas, item) {
		return nil
	}
	var lacking []string
	covered := map[corev1.ResourceName]bool{}
	for _, q := range quotas {
		if quota.Matches(q, item.Kind, item.Object) {
			for _, name := range quota.Covered(item.Kind, q.Status.Hard) {
				covered[name] = true
			}
		}
	}
	for _, name := range needed(limits, item) {
		if !covered[name] {
			lacking = append(lacking, string(name))
		}
	}
	if len(lacking) > 0 {
		return admission.Forbidden(req, fmt.Errorf("insufficient quota to consume: %v", strings.Join(lacking, ",")))
	}
	var wanted, given []corev1.ScopedResourceSelectorRequirement
	for _, l := range limits {
		wanted = append(wanted, inScopes(item.Object, l.Scopes)...)
	}
	for _, q := range quotas {
		given = append(given, inScopes(item.Object, quota.Scopes(q))...)
	}
	wanted = slices.DeleteFunc(wanted, func(s corev1.ScopedResourceSelectorRequirement) bool {
		return slices.ContainsFunc(given, func(g corev1.ScopedResourceSelectorRequirement) bool { return g.ScopeName == s.ScopeName })
	})
	if len(wanted) > 0 {
		return admission.Unclassified(fmt.Errorf("insufficient quota to match these scopes: %v", wanted))
	}
	return nil
}

// needed returns, in order, what an item uses of the limited resources.
func needed(limits []limited, item Item) []corev1.ResourceName {
	var names []corev1.ResourceName
	usage := quota.Usage(item.Kind, item.Object)
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		value := usage[name]
		if value.Sign() > 0 && slices.ContainsFunc(limits, func(l limited) bool {
			return l.Group == item.Kind.Group && l.Resource == item.Kind.Resource &&
				slices.ContainsFunc(l.Contains, func(part string) bool { return strings.Contains(string(name), part) })
		}) {
			names = append(names, name)
		}
	}
	return names
}

// inScopes returns the scopes that an object is in.
func inScopes(obj scheme.Object, all []corev1.ScopedResourceSelectorRequirement) []corev1.ScopedResourceSelectorRequirement {
	return slices.DeleteFunc(slices.Clone(all), func(s corev1.ScopedResourceSelectorRequirement) bool {
		one := &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{s}}
		return !quota.InScopes(&corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{ScopeSelector: one}}, obj)
	})
}

// uses reports whether an item uses more than before. A quota that does not match the old object
// counts all of the new one.
func uses(quotas []*corev1.ResourceQuota, item Item) bool {
	usage := quota.Usage(item.Kind, item.Object)
	var before corev1.ResourceList
	if item.Old != nil {
		before = quota.Usage(item.Kind, item.Old)
	}
	more := func(before corev1.ResourceList) bool {
		for name, value := range usage {
			if was := before[name]; value.Cmp(was) > 0 {
				return true
			}
		}
		return false
	}
	matched := false
	for _, q := range quotas {
		if !quota.Matches(q, item.Kind, item.Object) {
			continue
		}
		matched = true
		if item.Old == nil || !quota.Matches(q, item.Kind, item.Old) {
			if more(nil) {
				return true
			}
		} else if more(before) {
			return true
		}
	}
	return !matched && more(before)
}
