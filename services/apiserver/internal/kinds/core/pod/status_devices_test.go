package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const device = "example.com/gpu"

// extended adds to a pod a claim for the extended resource that its container requests, changed by change.
func extended(change func(*corev1.PodExtendedResourceClaimStatus)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		first(p).Resources.Requests = corev1.ResourceList{device: resource.MustParse("1")}
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "claim", RequestMappings: []corev1.ContainerExtendedResourceRequest{
			{ContainerName: first(p).Name, ResourceName: device, RequestName: "request"},
		}}
		change(p.Status.ExtendedResourceClaimStatus)
	}
}

// healthy reports devices of a resource of the first container.
func healthy(p *corev1.Pod, name corev1.ResourceName, devices ...corev1.ResourceHealth) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: first(p).Name, AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: name, Resources: devices}}}}
}

// TestStatusOfDevices checks what the status of a pod may say about its devices.
func TestStatusOfDevices(t *testing.T) {
	type claim = *corev1.PodExtendedResourceClaimStatus
	const path = "status.extendedResourceClaimStatus."
	ok := corev1.ResourceHealth{ResourceID: "1", Health: corev1.ResourceHealthStatusHealthy}
	notOfClaim := []string{"status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value:", "must match one of the container's resource claims as"}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"extended":     {extended(func(claim) {}), nil},
		"no mapping":   {extended(func(c claim) { c.RequestMappings = nil }), []string{path + "requestMappings: Required value: at least one request mapping is required"}},
		"no container": {extended(func(c claim) { c.RequestMappings[0].ContainerName = "x" }), []string{path + `requestMappings[0].containerName: Invalid value: "x": must match the name of an entry`}},
		"no resource": {extended(func(c claim) { c.RequestMappings[0].ResourceName = "x" }), []string{
			path + `requestMappings[0].resourceName: Invalid value: "x": must match the extended resource name`,
		}},
		"odd request": {extended(func(c claim) { c.RequestMappings[0].RequestName = "A" }), []string{path + `requestName: Invalid value: "A"`}},
		"twice": {extended(func(c claim) { c.RequestMappings = append(c.RequestMappings, c.RequestMappings[0]) }), []string{
			path + `requestMappings[1].containerName: Duplicate value`, path + `requestMappings[1].resourceName: Duplicate value`, path + `requestMappings[1].requestName: Duplicate value`,
		}},
		"no name":  {extended(func(c claim) { c.ResourceClaimName = "" }), []string{path + "resourceClaimName: Required value"}},
		"odd name": {extended(func(c claim) { c.ResourceClaimName = "A" }), []string{path + `resourceClaimName: Invalid value: "A"`}},

		"healthy":                       {func(p *corev1.Pod) { extended(func(claim) {})(p); healthy(p, device, ok) }, nil},
		"not requested":                 {func(p *corev1.Pod) { healthy(p, device, ok) }, []string{`allocatedResourcesStatus[0].name: Invalid value: "example.com/gpu": must match one of the container's resource requests`}},
		"of no container":               {func(p *corev1.Pod) { healthy(p, device, ok); p.Status.ContainerStatuses[0].Name = "x" }, nil},
		"of the extended claim":         {func(p *corev1.Pod) { extended(func(claim) {})(p); healthy(p, "claim:claim/request", ok) }, nil},
		"of another extended claim":     {func(p *corev1.Pod) { extended(func(claim) {})(p); healthy(p, "claim:other/request", ok) }, notOfClaim},
		"of another request":            {func(p *corev1.Pod) { extended(func(claim) {})(p); healthy(p, "claim:claim/other", ok) }, notOfClaim},
		"of the extended claim, anyhow": {func(p *corev1.Pod) { extended(func(claim) {})(p); healthy(p, "claim:claim", ok) }, notOfClaim},
		"of a claim": {func(p *corev1.Pod) {
			first(p).Resources.Claims = []corev1.ResourceClaim{{Name: "c"}}
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: new("c")}}
			healthy(p, "claim:c", ok)
		}, nil},
		"of a request of a claim": {func(p *corev1.Pod) {
			first(p).Resources.Claims = []corev1.ResourceClaim{{Name: "c", Request: "r"}}
			healthy(p, "claim:c/r", ok)
		}, nil},
		"of the whole claim": {func(p *corev1.Pod) {
			first(p).Resources.Claims = []corev1.ResourceClaim{{Name: "c", Request: "r"}}
			healthy(p, "claim:c", ok)
		}, notOfClaim},
		"odd health": {func(p *corev1.Pod) {
			extended(func(claim) {})(p)
			healthy(p, device, corev1.ResourceHealth{Health: "Odd", Message: new("")}, corev1.ResourceHealth{Health: "Unknown", Message: new(strings.Repeat("a", 1025))})
		}, []string{
			`resources[0].health: Unsupported value: "Odd": supported values: "Healthy", "Unhealthy", "Unknown"`, "resources[0].message: Required value: must be non-empty if specified",
			"resources[1].message: Too long: may not be more than 1024 bytes", `resources[1].resourceID: Duplicate value: ""`,
		}},
		"ephemeral": {func(p *corev1.Pod) {
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: device}}}}
		}, []string{"status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be specified in container status"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid()
			tc.change(p)
			checkErrors(t, validateStatusUpdate(p, p.DeepCopy()).ToAggregate(), tc.want)
		})
	}
}
