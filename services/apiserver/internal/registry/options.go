package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// createOptions returns the options of a create as admission plugins see them, with their kind.
func createOptions(opts metav1.CreateOptions) runtime.Object {
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	return &opts
}

// deleteOptions is createOptions for a delete.
func deleteOptions(opts metav1.DeleteOptions) runtime.Object {
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	return &opts
}

// given is createOptions for an update. Kubernetes shows those of a patch like this, too.
func (o UpdateOptions) given() runtime.Object {
	given := &metav1.UpdateOptions{FieldManager: o.FieldManager}
	given.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	if o.DryRun {
		given.DryRun = []string{metav1.DryRunAll}
	}
	return given
}
