//go:build compose

package compose_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const daemons = `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: daemons}, spec: {
  selector: {matchLabels: {app: daemons}},
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}},
  template: {metadata: {labels: {app: daemons}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: nginx}]}}}}`

// rollWithSurge runs a DaemonSet on all nodes, and replaces its pods. It follows every change of them: at
// no revision is a node without a ready one, and one new pod at a time starts beside an old one.
func (d *deployed) rollWithSurge(t *testing.T, nodes int) {
	t.Helper()
	d.Must(t, daemons, "create", "-f", "-")
	d.Must(t, "", "rollout", "status", "daemonset/daemons", "--timeout=10m")
	before := d.pods(t, "app=daemons", nodes)
	if used := slices.Compact(slices.Sorted(maps.Values(before))); len(used) != nodes {
		t.Fatalf("the DaemonSet's pods run on %v, want %d nodes", used, nodes)
	}
	config, err := clientcmd.BuildConfigFromFlags("", d.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	listed, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=daemons"})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "app=daemons", ResourceVersion: listed.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	d.Must(t, "", "set", "env", "daemonset/daemons", "ROLLED=yes")
	roll := roll{old: before, pods: map[string]*corev1.Pod{}, surged: map[string]bool{}}
	for i := range listed.Items {
		roll.pods[listed.Items[i].Name] = &listed.Items[i]
	}
	for !roll.done(nodes) {
		event, open := <-changes.ResultChan()
		if !open {
			t.Fatalf("the watch ended while these pods existed: %v", slices.Sorted(maps.Keys(roll.pods)))
		}
		if err := roll.apply(event, nodes); err != nil {
			t.Fatal(err)
		}
	}
	if len(roll.surged) != nodes {
		t.Errorf("%d of %d nodes had two pods for a while", len(roll.surged), nodes)
	}
	d.Must(t, "", "rollout", "status", "daemonset/daemons", "--timeout=10m")
	d.Must(t, "", "delete", "daemonset", "daemons", "--cascade=foreground")
}

// roll are the pods of a DaemonSet that is being rolled.
type roll struct {
	old  map[string]string
	pods map[string]*corev1.Pod
	// surged has the nodes that had two pods.
	surged map[string]bool
}

// done reports whether only new pods exist, all of them ready.
func (r *roll) done(nodes int) bool {
	ready := 0
	for name, pod := range r.pods {
		if _, old := r.old[name]; old {
			return false
		}
		if isReady(pod) {
			ready++
		}
	}
	return ready == nodes && len(r.pods) == nodes
}

// apply applies a change.
func (r *roll) apply(event watch.Event, nodes int) error {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("watching the DaemonSet's pods: %v", event.Object)
	}
	r.pods[pod.Name] = pod
	if event.Type == watch.Deleted {
		delete(r.pods, pod.Name)
	}
	ready, all, starting := map[string]bool{}, map[string]int{}, 0
	for _, pod := range r.pods {
		node := pod.Spec.NodeName
		if isReady(pod) {
			ready[node] = true
		}
		if node == "" || pod.DeletionTimestamp != nil {
			continue
		}
		if all[node]++; all[node] == 2 {
			r.surged[node] = true
		}
		if !isReady(pod) {
			starting++
		}
	}
	if len(ready) != nodes {
		return fmt.Errorf("with %s %s: %d of %d nodes have a ready pod", event.Type, pod.Name, len(ready), nodes)
	}
	if starting > 1 {
		return fmt.Errorf("with %s %s: %d pods are starting, want one at a time", event.Type, pod.Name, starting)
	}
	return nil
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
