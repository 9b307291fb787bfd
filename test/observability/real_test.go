//go:build containers

package observability_test

import (
	"context"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/containers/harness"
)

// realNode is a node with containers and the network parts, in a network namespace of its own.
type realNode struct{ nodes *harness.Nodes }

func newRealNode(t *testing.T) *realNode { return &realNode{nodes: harness.StartNodes(t, 1)} }

// address returns the apiserver's, which the node can reach.
func (n *realNode) address(*testing.T) string { return n.nodes.Host.String() + ":6443" }

// start starts the node's agent, a Service whose endpoints change with the load, and a pod that asks for names.
func (n *realNode) start(t *testing.T, d *deployment) {
	t.Helper()
	node := n.nodes.List[0]
	dir := filepath.Join(d.dir, "real")
	t.Cleanup(func() {
		if err := harness.Unmount(dir); err != nil {
			t.Error(err)
		}
	})
	health := node.Address.String() + ":10248"
	run(t, node.Command(context.WithoutCancel(t.Context()), filepath.Join(d.dir, "nodeagent"), "--kubeconfig", d.userConfig(t, "system:node:real"),
		"--nats-insecure", "--nats-servers", d.nats,
		"--node-name", "real", "--node-ip", node.Address.String(), "--runtime", node.Endpoint(), "--data-dir", dir,
		"--cni-conf-dir", node.CNIDir(), "--health-address", health))
	d.targets["nodeagent"] = append(d.targets["nodeagent"], health)
	n.serve(t, d)
}

// serve creates the Service and the pod.
func (n *realNode) serve(t *testing.T, d *deployment) {
	t.Helper()
	api, err := client.New(d.api, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	// The load's pods are not for this node, which has no image of them.
	eventually(t, "the real node is there", func() error {
		_, err := client.Of[*corev1.Node](api).Patch(t.Context(), "", "real", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}, "")
		return err
	})
	eventually(t, "the Service is created", func() error {
		_, err := client.Of[*corev1.Service](api).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "nginx"}, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		return err
	})
	var containers []corev1.Container
	for name, host := range map[string]string{"inside": "nginx", "outside": "name.example"} {
		containers = append(containers, corev1.Container{
			Name: name, Image: "busybox:1.36", Command: []string{"sleep", "infinity"},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"wget", "http://" + host}}},
				PeriodSeconds: 1,
			},
		})
	}
	eventually(t, "the pod that asks is created", func() error {
		_, err := client.Of[*corev1.Pod](api).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "asking"},
			Spec:       corev1.PodSpec{NodeName: "real", Containers: containers},
		}, metav1.CreateOptions{})
		return err
	})
}
