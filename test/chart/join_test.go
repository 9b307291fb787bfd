package chart_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTokenServesToJoinOnly checks that the container of an agent on a host's runtime does not get
// the bootstrap token: the host runs pods that could find it there. An init container joins.
func TestTokenServesToJoinOnly(t *testing.T) {
	const token, folder = "demo-gb-join", "/etc/garboard/join"
	objects := rendered(t, "nodes") // its mode is hostPath
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" })
	if i < 0 {
		t.Fatal("there is no DaemonSet of nodes")
	}
	pod, _, _ := unstructured.NestedMap(objects[i].Object, "spec", "template", "spec")
	var mounted []string // the volumes with the token
	for _, volume := range entries(t, pod, "volumes") {
		if name, _, _ := unstructured.NestedString(volume, "secret", "secretName"); name == token {
			mounted = append(mounted, volume["name"].(string))
		}
	}
	if len(mounted) != 1 {
		t.Fatalf("the volumes %v have the token, want one", mounted)
	}
	before, containers := entries(t, pod, "initContainers"), entries(t, pod, "containers")
	if len(before) != 1 || len(containers) != 1 {
		t.Fatalf("%d init containers and %d containers, want 1 of each", len(before), len(containers))
	}
	joins, agent := before[0], containers[0]
	if paths := mounts(t, joins, mounted[0]); !slices.Equal(paths, []string{folder}) {
		t.Errorf("the init container has the token at %v, want %s", paths, folder)
	}
	if paths := mounts(t, agent, mounted[0]); len(paths) > 0 {
		t.Errorf("the agent's container has the token at %v", paths)
	}
	joining, _, _ := unstructured.NestedStringSlice(joins, "args")
	running, _, _ := unstructured.NestedStringSlice(agent, "args")
	if !slices.Contains(joining, "--join-only") || slices.Contains(running, "--join-only") {
		t.Errorf("the init container has %v, and the agent %v: only the first must have --join-only", joining, running)
	}
	// Both use the same directory: the first writes there what the second reads.
	data := valueOf(joining, "--data-dir")
	if data == "" || valueOf(running, "--data-dir") != data {
		t.Errorf("the directories %q and %q", data, valueOf(running, "--data-dir"))
	}
	if file := valueOf(joining, "--bootstrap-kubeconfig"); file != folder+"/bootstrap-kubeconfig" {
		t.Errorf("the init container joins by %q", file)
	}
	if file := valueOf(running, "--bootstrap-kubeconfig"); file != data+"/pki/cluster.kubeconfig" {
		t.Errorf("the agent gets the file %q", file)
	}
}

// entries returns the maps in a field of a pod.
func entries(t *testing.T, pod map[string]any, field string) (found []map[string]any) {
	t.Helper()
	list, _, err := unstructured.NestedSlice(pod, field)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		found = append(found, one.(map[string]any))
	}
	return found
}

// mounts returns the paths at which a container has a volume.
func mounts(t *testing.T, container map[string]any, volume string) (paths []string) {
	t.Helper()
	for _, mount := range entries(t, container, "volumeMounts") {
		if mount["name"] == volume {
			paths = append(paths, mount["mountPath"].(string))
		}
	}
	return paths
}

// valueOf returns the value of a flag's only occurrence; "" if there is not exactly one.
func valueOf(args []string, flag string) (value string) {
	count := 0
	for _, arg := range args {
		if after, ok := strings.CutPrefix(arg, flag+"="); ok {
			value = after
			count++
		}
	}
	if count != 1 {
		return ""
	}
	return value
}
