package apps

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// ReplicationController defines the kind ReplicationController.
func ReplicationController() *kinds.Definition {
	type controller = *corev1.ReplicationController
	specStatus := kinds.SpecStatusOf(func(rc controller) (*corev1.ReplicationControllerSpec, *corev1.ReplicationControllerStatus) {
		return &rc.Spec, &rc.Status
	})
	s := kinds.Of[controller]{
		Columns: replicationControllerColumns(),
		Replicas: kinds.ReplicasOf(func(rc controller) (**int32, int32, *metav1.LabelSelector) {
			return &rc.Spec.Replicas, rc.Status.Replicas, &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
		}),
		Level:    kinds.Full,
		Default:  defaultReplicationController,
		Create:   specStatus.Begin,
		Validate: validateReplicationController,
		Update: kinds.ChangeOf[controller]{
			Prepare: specStatus.KeepStatus, Validate: validateReplicationControllerUpdate,
			Warnings: func(rc, old controller) []string {
				if rc.Generation == old.Generation {
					return nil
				}
				return replicationControllerWarnings(old) // Kubernetes warns about the template that goes.
			},
		},
		Subresources:     map[string]kinds.ChangeOf[controller]{"status": {Prepare: specStatus.KeepSpec, Validate: validateReplicationControllerStatus}},
		Warnings:         replicationControllerWarnings,
		CreationWarnings: func(rc controller) []string { return podtemplate.WorkloadNameWarnings(rc.Name) },
		FieldLabels:      []string{"status.replicas"},
		Fields: func(rc controller) fields.Set {
			return fields.Set{"status.replicas": fmt.Sprint(rc.Status.Replicas)}
		},
	}.Definition()
	s.Orphans = true
	return s
}

func replicationControllerWarnings(rc *corev1.ReplicationController) []string {
	if rc.Spec.Template == nil {
		return nil
	}
	return podtemplate.PodTemplateWarnings(rc.Spec.Template, templatePath())
}

// defaultReplicationController sets the defaults of a replication controller: its selector and its own
// labels default to its template's labels.
func defaultReplicationController(rc *corev1.ReplicationController) {
	kinds.Fill(&rc.Spec.Replicas, int32(defaultReplicas))
	if rc.Spec.Template == nil {
		return
	}
	podtemplate.DefaultPodTemplate(rc.Spec.Template)
	if len(rc.Spec.Selector) == 0 {
		rc.Spec.Selector = maps.Clone(rc.Spec.Template.Labels)
	}
	if len(rc.Labels) == 0 {
		rc.Labels = maps.Clone(rc.Spec.Template.Labels)
	}
}

func replicationControllerColumns() *columns.Layout {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	return columns.Of(replicas(spec, status), func(rc *corev1.ReplicationController, now time.Time) []any {
		var containers, images string
		if rc.Spec.Template != nil {
			containers, images = columns.Template(rc.Spec.Template)
		}
		return []any{
			rc.Name, int64(wanted(rc.Spec.Replicas)), int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas),
			columns.AgeOf(rc, now), containers, images, labels.FormatLabels(rc.Spec.Selector),
		}
	})
}
