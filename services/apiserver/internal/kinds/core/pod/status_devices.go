package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// claimStatuses checks the claims that were made for a pod from templates.
func claimStatuses(pod *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, status := range pod.Status.ResourceClaimStatuses {
		at := path.Index(i).Child("name")
		if !slices.ContainsFunc(pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == status.Name }) {
			errs = append(errs, field.Invalid(at, status.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if slices.ContainsFunc(pod.Status.ResourceClaimStatuses[:i], func(s corev1.PodResourceClaimStatus) bool { return s.Name == status.Name }) {
			errs = append(errs, field.Duplicate(at, status.Name))
		}
		if name := status.ResourceClaimName; name != nil {
			errs = append(errs, values.Invalid(path.Index(i).Child("resourceClaimName"), name, apivalidation.NameIsDNSSubdomain(*name, false))...)
		}
	}
	return errs
}

// extendedClaim checks the claim that was made for a pod's extended resources: it has a name, and each of
// its requests is for a resource that a container requests.
func extendedClaim(s *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	requests := map[string]corev1.ResourceList{}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			requests[list[i].Name] = list[i].Resources.Requests
		}
	}
	var errs field.ErrorList
	mappings := path.Child("requestMappings")
	if len(s.RequestMappings) == 0 {
		errs = append(errs, field.Required(mappings, "at least one request mapping is required"))
	}
	for i, m := range s.RequestMappings {
		at := mappings.Index(i)
		of, ok := requests[m.ContainerName]
		if !ok {
			errs = append(errs, field.Invalid(at.Child("containerName"), m.ContainerName,
				"must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		} else if _, ok := of[corev1.ResourceName(m.ResourceName)]; !ok {
			errs = append(errs, field.Invalid(at.Child("resourceName"), m.ResourceName,
				"must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"))
		}
		// Kubernetes' path leaves out the mapping.
		errs = append(errs, values.Invalid(path.Child("requestName"), m.RequestName, validation.IsDNS1123Label(m.RequestName))...)
		if slices.Contains(s.RequestMappings[:i], m) {
			errs = append(errs, field.Duplicate(at.Child("containerName"), m.ContainerName),
				field.Duplicate(at.Child("resourceName"), m.ResourceName), field.Duplicate(at.Child("requestName"), m.RequestName))
		}
	}
	if s.ResourceClaimName == "" {
		return append(errs, field.Required(path.Child("resourceClaimName"), ""))
	}
	return append(errs, values.Invalid(path.Child("resourceClaimName"), s.ResourceClaimName, apivalidation.NameIsDNSSubdomain(s.ResourceClaimName, false))...)
}

// allocated checks the health of the devices that a container has. containers are those of its kind; nil
// if they cannot have devices.
func allocated(s *corev1.ContainerStatus, containers *[]corev1.Container, extended *corev1.PodExtendedResourceClaimStatus, path *field.Path) field.ErrorList {
	if containers == nil {
		if len(s.AllocatedResourcesStatus) == 0 {
			return nil
		}
		return field.ErrorList{field.Forbidden(path, "must not be specified in container status")}
	}
	var errs field.ErrorList
	// Of a container that the pod does not have, any resource may be reported.
	at := slices.IndexFunc(*containers, func(c corev1.Container) bool { return c.Name == s.Name })
	for i, of := range s.AllocatedResourcesStatus {
		if at >= 0 {
			errs = append(errs, requestedBy(&(*containers)[at], of.Name, extended, path.Index(i).Child("name"))...)
		}
		errs = append(errs, health(of.Resources, path.Index(i).Child("resources"))...)
	}
	return errs
}

// claimPrefix begins the names of resources that are devices of a claim.
const claimPrefix = "claim:"

// requestedBy checks that a container requests the resource with the given name.
func requestedBy(c *corev1.Container, name corev1.ResourceName, extended *corev1.PodExtendedResourceClaimStatus, path *field.Path) field.ErrorList {
	devices, ok := strings.CutPrefix(string(name), claimPrefix)
	if !ok {
		if _, ok := c.Resources.Requests[name]; !ok {
			return field.ErrorList{field.Invalid(path, name, "must match one of the container's resource requests")}
		}
		return nil
	}
	claim, request, _ := strings.Cut(devices, "/")
	own := slices.ContainsFunc(c.Resources.Claims, func(r corev1.ResourceClaim) bool {
		return devices == r.Name && r.Request == "" || r.Request != "" && devices == r.Name+"/"+r.Request
	})
	if own || request != "" && extended != nil && claim == extended.ResourceClaimName && mapped(c, request, extended) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' "+
		"when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty")}
}

// mapped reports whether a request of the claim for extended resources serves a container.
func mapped(c *corev1.Container, request string, extended *corev1.PodExtendedResourceClaimStatus) bool {
	return slices.ContainsFunc(extended.RequestMappings, func(m corev1.ContainerExtendedResourceRequest) bool {
		amount := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]
		return m.ContainerName == c.Name && m.RequestName == request && !amount.IsZero()
	})
}

// health checks the health of devices, each of which is there once.
func health(list []corev1.ResourceHealth, path *field.Path) field.ErrorList {
	known := []corev1.ResourceHealthStatus{corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown}
	var errs field.ErrorList
	seen := map[corev1.ResourceID]bool{}
	for i, r := range list {
		at := path.Index(i)
		if !slices.Contains(known, r.Health) {
			errs = append(errs, field.NotSupported(at.Child("health"), r.Health, known))
		}
		switch {
		case r.Message == nil:
		case *r.Message == "":
			errs = append(errs, field.Required(at.Child("message"), "must be non-empty if specified"))
		case len(*r.Message) > corev1.ResourceHealthMessageMaxLength:
			errs = append(errs, field.TooLong(at.Child("message"), *r.Message, corev1.ResourceHealthMessageMaxLength))
		}
		if seen[r.ResourceID] {
			errs = append(errs, field.Duplicate(at.Child("resourceID"), r.ResourceID))
		}
		seen[r.ResourceID] = true
	}
	return errs
}
