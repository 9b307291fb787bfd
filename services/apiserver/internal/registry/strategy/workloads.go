package strategy

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/validation"
)

func deployment() *Strategy {
	return of[*appsv1.Deployment]{
		Default: defaults.Deployment,
		Create: func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{}
			d.Generation = 1
		},
		Validate: validation.Deployment,
		Update: change[*appsv1.Deployment]{
			Prepare: func(d, old *appsv1.Deployment) {
				d.Status = *old.Status.DeepCopy()
				// Annotations count as well: the controller copies them to the replica sets.
				if !apiequality.Semantic.DeepEqual(d.Spec, old.Spec) || !apiequality.Semantic.DeepEqual(d.Annotations, old.Annotations) {
					d.Generation = old.Generation + 1
				}
			},
			Validate: validation.DeploymentUpdate,
		},
		Subresources: map[string]change[*appsv1.Deployment]{"status": {
			Prepare: func(d, old *appsv1.Deployment) {
				d.Spec = *old.Spec.DeepCopy()
				d.Labels = old.Labels
			},
			Validate: validation.DeploymentStatus,
		}},
		Warnings: func(d *appsv1.Deployment) []string {
			return templateWarnings(&d.Spec.Template.Spec, "spec.template.spec")
		},
	}.strategy()
}

func replicaSet() *Strategy {
	return of[*appsv1.ReplicaSet]{
		Default: defaults.ReplicaSet,
		Create: func(rs *appsv1.ReplicaSet) {
			rs.Status = appsv1.ReplicaSetStatus{}
			rs.Generation = 1
		},
		Validate: validation.ReplicaSet,
		Update: change[*appsv1.ReplicaSet]{
			Prepare: func(rs, old *appsv1.ReplicaSet) {
				rs.Status = *old.Status.DeepCopy()
				if !apiequality.Semantic.DeepEqual(rs.Spec, old.Spec) {
					rs.Generation = old.Generation + 1
				}
			},
			Validate: validation.ReplicaSetUpdate,
		},
		Subresources: map[string]change[*appsv1.ReplicaSet]{"status": {
			Prepare:  func(rs, old *appsv1.ReplicaSet) { rs.Spec = *old.Spec.DeepCopy() },
			Validate: validation.ReplicaSetStatus,
		}},
		Warnings: func(rs *appsv1.ReplicaSet) []string {
			return templateWarnings(&rs.Spec.Template.Spec, "spec.template.spec")
		},
		FieldLabels: []string{"status.replicas"},
		Fields: func(rs *appsv1.ReplicaSet) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(rs.Status.Replicas))}
		},
	}.strategy()
}

func controllerRevision() *Strategy {
	return of[*appsv1.ControllerRevision]{
		Validate: validation.ControllerRevision,
		Update:   change[*appsv1.ControllerRevision]{Validate: validation.ControllerRevisionUpdate},
	}.strategy()
}
