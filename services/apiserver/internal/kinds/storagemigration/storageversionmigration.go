package storagemigration

import (
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

type migration = *storagemigrationv1.StorageVersionMigration

// StorageVersionMigration defines the kind StorageVersionMigration. It has no generation.
func StorageVersionMigration() *kinds.Definition {
	return kinds.Of[migration]{
		Level:    kinds.Full,
		Columns:  storageVersionMigrationColumns(),
		Create:   func(m migration) { m.Status = storagemigrationv1.StorageVersionMigrationStatus{} },
		Validate: validateStorageVersionMigration,
		Update: kinds.ChangeOf[migration]{
			Prepare:  func(m, old migration) { m.Status = *old.Status.DeepCopy() },
			Validate: validateStorageVersionMigrationUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[migration]{"status": {
			Prepare: func(m, old migration) {
				m.Spec = old.Spec
				kinds.KeepMetadata(m, old)
			},
			Validate: validateStorageVersionMigrationStatus,
		}},
		ConditionalUpdate: true,
	}.Definition()
}

func storageVersionMigrationColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"]),
		columns.Text("Resource", "GroupResource to migrate"),
		columns.Text("Status", "Status of the migration"),
	}, func(m migration, _ time.Time) []any {
		status := "Unknown"
		for _, condition := range m.Status.Conditions {
			if condition.Status != metav1.ConditionTrue {
				continue
			}
			switch storagemigrationv1.MigrationConditionType(condition.Type) {
			case storagemigrationv1.MigrationRunning, storagemigrationv1.MigrationFailed, storagemigrationv1.MigrationSucceeded:
				status = condition.Type
			}
		}
		return []any{m.Name, m.Spec.Resource.String(), status}
	})
}
