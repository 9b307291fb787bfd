package harness

import (
	"context"
	"fmt"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Running returns the number of running containers of each pod, by the pod's UID, as reported by
// containerd itself.
func (c *Containers) Running(ctx context.Context) (map[string]int, error) {
	client, closeClient, err := connect(c.socket())
	if err != nil {
		return nil, err
	}
	defer closeClient()
	list, err := client.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, fmt.Errorf("listing containerd's containers: %w", err)
	}
	count := map[string]int{}
	for _, container := range list.GetContainers() {
		count[container.GetLabels()["io.kubernetes.pod.uid"]]++
	}
	return count, nil
}
