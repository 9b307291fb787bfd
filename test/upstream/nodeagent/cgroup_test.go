package upstream

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime/conformance"
)

// podCgroup compares the amounts in a sandbox's config with those of the cgroup that the kubelet makes
// for a pod. The config leaves out the overhead, and has limits even if a container has none.
func podCgroup(pod *corev1.Pod, ours conformance.Answer) []conformance.Difference {
	if pod.Spec.Overhead != nil || len(ours.Calls) == 0 || ours.Calls[0].Method != "RunPodSandbox" {
		return nil
	}
	has, _ := field(ours.Calls[0].Request, "config", "linux", "resources").(map[string]any)
	want := cm.ResourceConfigForPod(pod, true, cm.QuotaPeriod, false, kubeletconfig.NoneMemoryReservationPolicy)
	var found []conformance.Difference
	check := func(name string, value any) {
		if got := fmt.Sprint(has[name]); got != fmt.Sprint(value) {
			found = append(found, conformance.Difference{Path: "pod cgroup " + name, Ours: got, Theirs: fmt.Sprint(value)})
		}
	}
	if want.CPUShares != nil {
		check("cpuShares", *want.CPUShares)
	}
	if want.CPUQuota != nil && *want.CPUQuota > 0 {
		check("cpuQuota", *want.CPUQuota)
	}
	if want.CPUPeriod != nil {
		check("cpuPeriod", *want.CPUPeriod)
	}
	if want.Memory != nil && *want.Memory > 0 {
		check("memoryLimitInBytes", *want.Memory)
	}
	return found
}

func field(value any, path ...string) any {
	for _, key := range path {
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	return value
}
