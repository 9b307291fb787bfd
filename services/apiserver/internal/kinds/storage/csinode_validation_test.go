package storage

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestNode(t *testing.T) {
	newNode := func(drivers ...storagev1.CSINodeDriver) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: meta(), Spec: storagev1.CSINodeSpec{Drivers: drivers}}
	}
	driver := func(name string, keys ...string) storagev1.CSINodeDriver {
		return storagev1.CSINodeDriver{Name: name, NodeID: "id", TopologyKeys: keys}
	}
	errortest.Exactly(t, validateNode(newNode(driver("a", "example.com/zone"), driver("b"))))
	long := strings.Repeat("x", 257)
	errortest.Exactly(t, validateNode(newNode(
		storagev1.CSINodeDriver{Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(-1))}}, storagev1.CSINodeDriver{Name: "a", NodeID: long}, driver("a", "k", "k", ""),
	)),
		"spec.drivers[0].name: Required value", "spec.drivers[0].nodeID: Required value",
		"spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
		`spec.drivers[1].nodeID: Invalid value: "`+long+`": must be 256 characters or less`,
		`spec.drivers[2].name: Duplicate value: "a"`, `spec.drivers[2]: Duplicate value: "k"`, "spec.drivers[2]: Required value",
		`spec.drivers[2]: Invalid value: "": name part must be non-empty`,
		`spec.drivers[2]: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`)
	counted := driver("a")
	counted.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(3))}
	errortest.Exactly(t, validateNodeUpdate(newNode(counted, driver("b")), newNode(driver("a"), driver("c"))))
	errortest.Exactly(t, validateNodeUpdate(newNode(driver("a", "k")), newNode(driver("a"))),
		`spec.drivers: Invalid value: {"name":"a","nodeID":"id","topologyKeys":["k"]}: field is immutable`)
}

// TestNodeStatus checks that no write of a node changes its status, which Kubernetes disables by default.
func TestNodeStatus(t *testing.T) {
	reported := func() *storagev1.CSINode {
		return &storagev1.CSINode{Status: storagev1.CSINodeStatus{StorageHealth: make([]storagev1.StorageHealth, 1)}}
	}
	created := reported()
	if CSINode().PrepareForCreate(created); created.Status.StorageHealth != nil {
		t.Errorf("created with %+v", created.Status)
	}
	updated := reported()
	if CSINode().Update.Prepare(updated, created); updated.Status.StorageHealth != nil {
		t.Errorf("updated to %+v", updated.Status)
	}
	if CSINode().Update.Prepare(created, reported()); len(created.Status.StorageHealth) != 1 {
		t.Errorf("the update lost the status: %+v", created)
	}
}
