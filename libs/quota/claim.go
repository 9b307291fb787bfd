package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// coversDevices reports whether a quota resource limits the devices of one class.
func coversDevices(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
}

// addDevices adds the devices that a claim may get, by class. A request for all matching devices
// counts as the maximum that a claim can have. Of alternatives, which are tried in turn, each class
// counts with its largest request.
func addDevices(usage corev1.ResourceList, claim *resourcev1.ResourceClaim) {
	total := map[string]int64{}
	for _, request := range claim.Spec.Devices.Requests {
		if exact := request.Exactly; exact != nil {
			total[exact.DeviceClassName] += devices(exact.AllocationMode, exact.Count)
			continue
		}
		most := map[string]int64{}
		for _, alternative := range request.FirstAvailable {
			class := alternative.DeviceClassName
			most[class] = max(most[class], devices(alternative.AllocationMode, alternative.Count))
		}
		for class, n := range most {
			total[class] += n
		}
	}
	for class, n := range total {
		usage[corev1.ResourceName(class+corev1.ResourceClaimsPerClass)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
}

func devices(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount, "":
		return max(count, 1)
	}
	return resourcev1.AllocationResultsMaxSize
}
