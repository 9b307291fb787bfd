package placement_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// freeVolumes parses volumes from YAML, one a line.
func freeVolumes(t *testing.T, lines string) func(class string) []*corev1.PersistentVolume {
	t.Helper()
	byClass := map[string][]*corev1.PersistentVolume{}
	for line := range strings.Lines(lines) {
		v := &corev1.PersistentVolume{}
		if err := yaml.UnmarshalStrict([]byte(strings.TrimSpace(line)), v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		v.Status.Phase, v.Spec.AccessModes = corev1.VolumeAvailable, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		byClass[v.Spec.StorageClassName] = append(byClass[v.Spec.StorageClassName], v)
	}
	return func(class string) []*corev1.PersistentVolume { return byClass[class] }
}

// TestChooseVolumes checks what each node provides for claims that wait for their pod.
func TestChooseVolumes(t *testing.T) {
	const (
		waits = `metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: %CLASS, resources: {requests: {storage: 1Gi}}}`
		all   = `Classes: [{metadata: {name: local}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer},
			{metadata: {name: made}, provisioner: example.com/disk, volumeBindingMode: WaitForFirstConsumer},
			{metadata: {name: zoned}, provisioner: example.com/disk, volumeBindingMode: WaitForFirstConsumer,
				allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [west]}]}]}]`
		onA = `nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a]}]}]}}`
	)
	for _, tt := range []struct{ name, class, volumes, want, says string }{
		{"the smallest", "local", `{metadata: {name: big}, spec: {storageClassName: local, capacity: {storage: 9Gi}}}
			{metadata: {name: fits}, spec: {storageClassName: local, capacity: {storage: 2Gi}}}`, "bind fits on b", ""},
		{"where it can be reached", "local", `{metadata: {name: v}, spec: {storageClassName: local, capacity: {storage: 2Gi}, ` + onA + `}}`, "bind v on a", ""},
		{"too small", "local", `{metadata: {name: v}, spec: {storageClassName: local, capacity: {storage: 1Mi}}}`, "", "2 node(s) didn't find available persistent volumes to bind"},
		{"another class", "local", `{metadata: {name: v}, spec: {storageClassName: made, capacity: {storage: 2Gi}}}`, "", "2 node(s) didn't find available persistent volumes to bind"},
		{"one is made", "made", "", "provision data on b", ""},
		{"one that exists before one that is made", "made", `{metadata: {name: v}, spec: {storageClassName: made, capacity: {storage: 2Gi}, ` + onA + `}}`, "bind v on a", ""},
		{"where it may be made", "zoned", "", "provision data on b", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, c := pod(t, claiming), cluster(host("a", "east"), host("b", "west"))
			c.Storage = storage(t, "{"+all+", Claims: [{"+strings.ReplaceAll(waits, "%CLASS", tt.class)+"}]}")
			c.Storage.Volumes = freeVolumes(t, tt.volumes)
			node, err := placement.Place(p, c, func(n int) int { return n - 1 })
			if tt.want == "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Fatalf("got %v, want %s", err, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			chosen, err := placement.ChooseVolumes(p, c, node)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, binding := range chosen.Bind {
				got += "bind " + binding.Volume.Name
			}
			for _, provision := range chosen.Provision {
				got += "provision " + provision.Claim.Name
			}
			if got += " on " + node.Name; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
