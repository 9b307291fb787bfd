package node

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditions returns the node's conditions, in Kubernetes' words.
func (n *Node) conditions(problem error) []corev1.NodeCondition {
	pressure := func(t corev1.NodeConditionType, under bool, bad, good [2]string) corev1.NodeCondition {
		c := corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: good[0], Message: good[1]}
		if under {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, bad[0], bad[1]
		}
		return c
	}
	free, err := memory("MemAvailable")
	lowMemory := err == nil && free < reservedMemory
	size, available, err := disk(n.cfg.DataDir)
	lowDisk := err == nil && available < freeDisk && float64(available) < float64(size)*(1-storageShare)
	left, err := pids()
	lowPIDs := err == nil && left < freePIDs
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
	}
	if problem != nil {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", problem.Error()
	}
	return []corev1.NodeCondition{
		pressure(corev1.NodeMemoryPressure, lowMemory,
			[2]string{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
			[2]string{"KubeletHasSufficientMemory", "kubelet has sufficient memory available"}),
		pressure(corev1.NodeDiskPressure, lowDisk,
			[2]string{"KubeletHasDiskPressure", "kubelet has disk pressure"},
			[2]string{"KubeletHasNoDiskPressure", "kubelet has no disk pressure"}),
		pressure(corev1.NodePIDPressure, lowPIDs,
			[2]string{"KubeletHasInsufficientPID", "kubelet has insufficient PID available"},
			[2]string{"KubeletHasSufficientPID", "kubelet has sufficient PID available"}),
		ready,
	}
}

// judge returns those of the present conditions that stay, and the present state of the agent's.
func (n *Node) judge(ctx context.Context, present []corev1.NodeCondition) (kept, fresh []corev1.NodeCondition) {
	fresh = n.conditions(n.cfg.Ready(ctx))
	if n.cfg.Conditions == nil {
		return present, fresh
	}
	further, gone := n.cfg.Conditions(present)
	for _, one := range present {
		if !slices.Contains(gone, one.Type) {
			kept = append(kept, one)
		}
	}
	return kept, append(fresh, further...)
}

// mergeConditions merges fresh into old, setting heartbeat and transition times as Kubernetes does.
// It keeps conditions set by others, and also returns those that changed.
func mergeConditions(old, fresh []corev1.NodeCondition, now metav1.Time) (merged, changed []corev1.NodeCondition) {
	merged = append(merged, old...)
	for _, c := range fresh {
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		at := -1
		for i := range merged {
			if merged[i].Type == c.Type {
				at = i
			}
		}
		if at < 0 {
			merged = append(merged, c)
			changed = append(changed, c)
			continue
		}
		if merged[at].Status == c.Status {
			c.LastTransitionTime = merged[at].LastTransitionTime
		} else {
			changed = append(changed, c)
		}
		merged[at] = c
	}
	return merged, changed
}

// event returns the reason and message of the Event about a condition that changed.
func event(name string, c corev1.NodeCondition) (reason, message string) {
	names := map[corev1.NodeConditionType][2]string{
		corev1.NodeReady:          {"NodeReady", "NodeNotReady"},
		corev1.NodeMemoryPressure: {"NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
		corev1.NodeDiskPressure:   {"NodeHasDiskPressure", "NodeHasNoDiskPressure"},
		corev1.NodePIDPressure:    {"NodeHasInsufficientPID", "NodeHasSufficientPID"},
	}
	if _, known := names[c.Type]; !known {
		return c.Reason, fmt.Sprintf("Node %s status is now: %s: %s", name, c.Reason, c.Message)
	}
	reason = names[c.Type][1]
	if c.Status == corev1.ConditionTrue {
		reason = names[c.Type][0]
	}
	return reason, fmt.Sprintf("Node %s status is now: %s", name, reason)
}
