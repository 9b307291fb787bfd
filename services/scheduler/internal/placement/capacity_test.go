package placement_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// TestCapacities checks that a volume is made only where its driver reports enough storage, and rather where
// it reports more.
func TestCapacities(t *testing.T) {
	const (
		objects = `{Classes: [{metadata: {name: made}, provisioner: disk.example.com, volumeBindingMode: WaitForFirstConsumer}],
			Drivers: [{metadata: {name: disk.example.com}, spec: {storageCapacity: %DRIVER}}, {metadata: {name: another.example.com}, spec: {storageCapacity: true}}],
			Claims: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: made, resources: {requests: {%SIZE}}}}],
			Capacities: [%CAPACITIES]}`
		east = `{storageClassName: made, nodeTopology: {matchLabels: {topology.kubernetes.io/zone: east}}, %}`
		west = `{storageClassName: made, nodeTopology: {matchLabels: {topology.kubernetes.io/zone: west}}, %}`
		full = "2 node(s) did not have enough free storage"
	)
	of := func(zone, rest string) string { return strings.ReplaceAll(zone, "%", rest) }
	for _, tt := range []struct{ name, driver, size, capacities, want, says string }{
		{"nothing is reported", "true", "storage: 1Gi", "", "", full},
		{"the driver does not limit", "false", "storage: 1Gi", "", "b", ""},
		{"enough on one", "true", "storage: 1Gi", of(east, "capacity: 1Gi") + "," + of(west, "capacity: 1023Mi"), "a", ""},
		{"too little everywhere", "true", "storage: 1Gi", of(east, "capacity: 1") + "," + of(west, "capacity: 1023Mi"), "", full},
		{"the largest volume counts", "true", "storage: 1Gi", of(west, "capacity: 9Gi, maximumVolumeSize: 1Mi") + "," + of(east, "capacity: 1Mi, maximumVolumeSize: 1Gi"), "a", ""},
		{"only a largest volume", "true", "storage: 1Gi", of(east, "maximumVolumeSize: 1Gi"), "a", ""},
		{"no size", "true", "storage: 1Gi", of(east, "metadata: {name: unknown}"), "", full},
		{"more is free on one", "true", "storage: 1Gi", of(east, "capacity: 8Gi") + "," + of(west, "capacity: 2Gi"), "a", ""},
		{"another class", "true", "storage: 1Gi", `{storageClassName: other, nodeTopology: {}, capacity: 9Gi}`, "", full},
		{"no topology", "true", "storage: 1Gi", `{storageClassName: made, capacity: 9Gi}`, "", full},
		{"every topology", "true", "storage: 1Gi", `{storageClassName: made, nodeTopology: {}, capacity: 9Gi}`, "b", ""},
		{"a topology that is no selector", "true", "storage: 1Gi", `{storageClassName: made, nodeTopology: {matchExpressions: [{key: a, operator: No}]}, capacity: 9Gi}`, "", full},
		{"the claim has no size", "true", "", "", "b", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, c := pod(t, claiming), cluster(host("a", "east"), host("b", "west"))
			c.Storage = storage(t, strings.NewReplacer("%DRIVER", tt.driver, "%SIZE", tt.size, "%CAPACITIES", tt.capacities).Replace(objects))
			node, err := placement.Place(p, c, func(n int) int { return n - 1 })
			switch {
			case tt.want == "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("got %v, want %s", err, tt.says)
			case tt.want != "" && (err != nil || node.Name != tt.want):
				t.Errorf("got %v, %v, want node %s", node, err, tt.want)
			}
		})
	}
}
