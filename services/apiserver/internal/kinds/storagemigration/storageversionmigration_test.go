package storagemigration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func condition(name string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: name, LastTransitionTime: kindtest.Ago(0)}
}

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	columns := []string{"Name", "Resource", "Status"}
	for name, tc := range map[string]struct {
		of         metav1.GroupResource
		conditions []metav1.Condition
		cells      []any
	}{
		"new":       {metav1.GroupResource{Group: "example.org", Resource: "gadgets"}, nil, []any{"one", "gadgets.example.org", "Unknown"}},
		"core":      {metav1.GroupResource{Resource: "pods"}, nil, []any{"one", "pods", "Unknown"}},
		"running":   {metav1.GroupResource{Resource: "pods"}, []metav1.Condition{condition("Running", "True")}, []any{"one", "pods", "Running"}},
		"succeeded": {metav1.GroupResource{Resource: "pods"}, []metav1.Condition{condition("Running", "False"), condition("Succeeded", "True")}, []any{"one", "pods", "Succeeded"}},
		"the last":  {metav1.GroupResource{Resource: "pods"}, []metav1.Condition{condition("Failed", "True"), condition("Running", "True")}, []any{"one", "pods", "Running"}},
		"of others": {metav1.GroupResource{Resource: "pods"}, []metav1.Condition{condition("Paused", "True")}, []any{"one", "pods", "Unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
			m.Spec.Resource, m.Status.Conditions = tc.of, tc.conditions
			kindtest.Row(t, StorageVersionMigration(), m, columns, tc.cells)
		})
	}
}

// TestParts checks that a new migration has no status and no generation, and that neither part can change the
// other.
func TestParts(t *testing.T) {
	kind := StorageVersionMigration()
	made := &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	made.Spec.Resource.Resource = "pods"
	made.Status.ResourceVersion = "7"
	kind.PrepareForCreate(made)
	if made.Status.ResourceVersion != "" || made.Generation != 0 {
		t.Errorf("a new migration has the status %+v and the generation %d", made.Status, made.Generation)
	}
	made.Status = storagemigrationv1.StorageVersionMigrationStatus{ResourceVersion: "7", Conditions: []metav1.Condition{condition("Running", "True")}}
	next := made.DeepCopy()
	next.Labels, next.Status = map[string]string{"a": "b"}, storagemigrationv1.StorageVersionMigrationStatus{}
	kind.Update.Prepare(next, made)
	if diff := cmp.Diff(made.Status, next.Status); diff != "" || next.Labels["a"] != "b" {
		t.Errorf("an update wrote the labels %v, and the status (-want +got):\n%s", next.Labels, diff)
	}
	if next.Status.Conditions[0].Message = "other"; made.Status.Conditions[0].Message != "" {
		t.Error("an update shares the status with the object before it")
	}
	next = made.DeepCopy()
	next.Labels, next.Spec.Resource.Resource, next.Status.ResourceVersion = map[string]string{"a": "b"}, "nodes", "8"
	kind.Subresources["status"].Prepare(next, made)
	if next.Labels != nil || next.Spec != made.Spec || next.Status.ResourceVersion != "8" {
		t.Errorf("an update of the status wrote %+v", next)
	}
}
