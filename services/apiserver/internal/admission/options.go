package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CreateOptions returns the options of a create as plugins see them, with their kind.
func CreateOptions(opts metav1.CreateOptions) runtime.Object {
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	return &opts
}

// UpdateOptions is CreateOptions for an update. Kubernetes shows those of a patch like this, too.
func UpdateOptions(fieldManager string, dryRun bool) runtime.Object {
	opts := &metav1.UpdateOptions{FieldManager: fieldManager}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	if dryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	return opts
}

// DeleteOptions is CreateOptions for a delete.
func DeleteOptions(opts metav1.DeleteOptions) runtime.Object {
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	return &opts
}
