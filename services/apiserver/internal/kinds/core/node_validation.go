package core

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
)

// validateNode validates a node.
func validateNode(n *corev1.Node) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMeta(&n.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, meta)
	errs = append(errs, nodeContent(n)...)
	// Kubernetes uses this path.
	if swap := n.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil && *swap.Capacity <= 0 {
		errs = append(errs, field.Invalid(meta.Child("nodeSwapStatus", "capacity"), *swap.Capacity, "must be greater than zero"))
	}
	return append(errs, podCIDRs(n.Spec.PodCIDRs, field.NewPath("spec", "podCIDRs"))...)
}

// nodeContent checks what every write of a node or of its status must leave valid.
func nodeContent(n *corev1.Node) field.ErrorList {
	errs := scheduling.Taints(n.Spec.Taints, field.NewPath("metadata", "taints")) // Kubernetes uses this path.
	errs = append(errs, nodeResources(n)...)
	return append(errs, declaredFeatures(n.Status.DeclaredFeatures, field.NewPath("status", "declaredFeatures"))...)
}

// declaredFeatures checks the features that a node declares, which are sorted.
func declaredFeatures(list []string, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return nil
	}
	form := regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)
	var errs field.ErrorList
	for i, name := range list {
		at := path.Index(i)
		switch {
		case len(name) > validation.DNS1123SubdomainMaxLength:
			errs = append(errs, field.Invalid(at, name,
				fmt.Sprintf("invalid feature name %q: must be no more than %d characters", name, validation.DNS1123SubdomainMaxLength)))
		case !form.MatchString(name):
			errs = append(errs, field.Invalid(at, name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, "+
				"with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name)))
		}
		if i == 0 {
			continue
		}
		switch strings.Compare(list[i-1], name) {
		case 0:
			errs = append(errs, field.Duplicate(at, name))
		case 1:
			errs = append(errs, field.Invalid(at, name, "list must be sorted alphabetically"))
		}
	}
	return errs
}

func nodeResources(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name      string
		resources corev1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		for _, name := range resources.Sorted(list.resources) {
			errs = append(errs, resourceQuantity(name, list.resources[name], field.NewPath("status", list.name, string(name)))...)
		}
	}
	return errs
}

// podCIDRs checks the ranges for the pods of a node: at most one of each family.
func podCIDRs(list []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, cidr := range list {
		errs = append(errs, network.Cidr(path.Index(i), cidr, nil)...)
	}
	if len(list) < 2 {
		return errs
	}
	dual, err := netutils.IsDualStackCIDRStrings(list)
	if err != nil {
		errs = append(errs, field.InternalError(path, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
	}
	if !dual || len(list) > 2 {
		errs = append(errs, field.Invalid(path, list, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

// validateNodeUpdate validates an update of a node or of its status: pod CIDRs and the provider ID are
// immutable once set.
func validateNodeUpdate(n, old *corev1.Node) field.ErrorList {
	errs := nodeContent(n)
	path, status := field.NewPath("spec"), field.NewPath("status")
	for i, address := range n.Status.Addresses {
		if slices.Contains(n.Status.Addresses[:i], address) {
			errs = append(errs, field.Duplicate(status.Child("addresses").Index(i), address))
		}
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(path.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	switch id := n.Spec.ProviderID; {
	case old.Spec.ProviderID == "" || id == old.Spec.ProviderID:
	case id == "":
		errs = append(errs, field.Invalid(path.Child("providerID"), nil, "field cannot be cleared once set"))
	default:
		errs = append(errs, field.Invalid(path.Child("providerID"), nil, "field cannot be modified once set"))
	}
	if source := n.Spec.ConfigSource; source != nil { //nolint:staticcheck // Kubernetes checks it though nothing reads it.
		errs = append(errs, configSource(source, false, path.Child("configSource"))...)
	}
	if config := n.Status.Config; config != nil {
		for _, source := range []struct {
			name  string
			value *corev1.NodeConfigSource
		}{{"assigned", config.Assigned}, {"active", config.Active}, {"lastKnownGood", config.LastKnownGood}} {
			if source.value != nil {
				errs = append(errs, configSource(source.value, true, status.Child("config", source.name))...)
			}
		}
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(path.Child("externalID"), "may not be updated"))
	}
	return errs
}

// configSource checks where a node's configuration comes from: a ConfigMap's name in the spec, an
// exact version of the ConfigMap in the status.
func configSource(source *corev1.NodeConfigSource, exact bool, path *field.Path) field.ErrorList {
	if source.ConfigMap == nil {
		return field.ErrorList{field.Invalid(path, source, "exactly one reference subfield must be non-nil")}
	}
	var errs field.ErrorList
	ref, at := source.ConfigMap, path.Child("configMap")
	for _, f := range []struct{ name, value string }{{"uid", string(ref.UID)}, {"resourceVersion", ref.ResourceVersion}} {
		switch {
		case exact && f.value == "":
			errs = append(errs, field.Required(at.Child(f.name), f.name+" must be set in status"))
		case !exact && f.value != "":
			errs = append(errs, field.Forbidden(at.Child(f.name), f.name+" must not be set in spec"))
		}
	}
	for _, f := range []struct {
		name, value string
		check       func(string) []string
	}{
		{"namespace", ref.Namespace, func(name string) []string { return apivalidation.ValidateNamespaceName(name, false) }},
		{"name", ref.Name, func(name string) []string { return apivalidation.NameIsDNSSubdomain(name, false) }},
		{"kubeletConfigKey", ref.KubeletConfigKey, validation.IsConfigMapKey},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(at.Child(f.name), f.name+" must be set"))
			continue
		}
		for _, msg := range f.check(f.value) {
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, msg))
		}
	}
	return errs
}
