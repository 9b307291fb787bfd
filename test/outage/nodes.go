package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// running is a container that containerd runs on a node.
type running struct {
	Labels map[string]string `json:"Labels"`
}

// doubled returns an error that names pods that run twice on the real nodes, or run although they
// are deleted; nil if there are none.
func (s *stage) doubled(ctx context.Context) error {
	list, err := s.clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	nodes, err := s.project.Containers(ctx, "nodeagent")
	if err != nil {
		return err
	}
	found := map[string][]running{}
	for i, node := range nodes {
		printed, err := s.project.Exec(ctx, "nodeagent", i+1, "bash", "-c",
			`for id in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io containers info "$id"; done`)
		if err != nil {
			return err
		}
		if found[node.Name], err = parseRunning(printed); err != nil {
			return fmt.Errorf("reading the containers of %s: %w", node.Name, err)
		}
	}
	return compareRunning(list.Items, found)
}

// parseRunning parses a sequence of JSON objects.
func parseRunning(printed string) ([]running, error) {
	var all []running
	for decoder := json.NewDecoder(strings.NewReader(printed)); ; {
		var one running
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

// compareRunning compares the containers on nodes with the existing pods.
func compareRunning(pods []corev1.Pod, found map[string][]running) error {
	known := map[types.UID]corev1.Pod{}
	for _, pod := range pods {
		known[pod.UID] = pod
	}
	var faults []error
	seen := map[string]string{}
	for node, all := range found {
		for _, one := range all {
			if one.Labels["io.cri-containerd.kind"] != "container" {
				continue // a sandbox, which may briefly outlive its containers
			}
			uid, name := types.UID(one.Labels["io.kubernetes.pod.uid"]), one.Labels["io.kubernetes.container.name"]
			what := one.Labels["io.kubernetes.pod.name"] + "/" + name
			pod, there := known[uid]
			switch {
			case !there:
				faults = append(faults, fmt.Errorf("%s runs %s, whose pod does not exist", node, what))
			case pod.Spec.NodeName != node:
				faults = append(faults, fmt.Errorf("%s runs %s, which belongs to the node %s", node, what, pod.Spec.NodeName))
			}
			if other, twice := seen[string(uid)+name]; twice {
				faults = append(faults, fmt.Errorf("%s runs twice, on %s and %s", what, other, node))
			}
			seen[string(uid)+name] = node
		}
	}
	return errors.Join(faults...)
}
