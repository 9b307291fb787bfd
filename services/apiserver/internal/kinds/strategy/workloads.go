package strategy

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	validation "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/apps"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/warnings"
)

func deployment() *kinds.Definition {
	specStatus := specStatusOf(func(d *appsv1.Deployment) (*appsv1.DeploymentSpec, *appsv1.DeploymentStatus) {
		return &d.Spec, &d.Status
	})
	return of[*appsv1.Deployment]{
		Level:    kinds.Full,
		Default:  defaults.Deployment,
		Create:   specStatus.begin,
		Validate: validation.Deployment,
		Update: change[*appsv1.Deployment]{
			Prepare: func(d, old *appsv1.Deployment) {
				specStatus.keepStatus(d, old)
				// Annotations count as well: the controller copies them to the replica sets.
				if !apiequality.Semantic.DeepEqual(d.Annotations, old.Annotations) {
					d.Generation = old.Generation + 1
				}
			},
			Validate: validation.DeploymentUpdate,
		},
		Subresources: map[string]change[*appsv1.Deployment]{"status": {
			Prepare: func(d, old *appsv1.Deployment) {
				specStatus.keepSpec(d, old)
				d.Labels = old.Labels
			},
			Validate: validation.DeploymentStatus,
		}},
		Warnings:         func(d *appsv1.Deployment) []string { return warnings.PodTemplate(&d.Spec.Template, templatePath()) },
		CreationWarnings: func(d *appsv1.Deployment) []string { return warnings.WorkloadName(d.Name) },
	}.strategy()
}

func replicaSet() *kinds.Definition {
	specStatus := specStatusOf(func(rs *appsv1.ReplicaSet) (*appsv1.ReplicaSetSpec, *appsv1.ReplicaSetStatus) {
		return &rs.Spec, &rs.Status
	})
	return of[*appsv1.ReplicaSet]{
		Level:    kinds.Full,
		Default:  defaults.ReplicaSet,
		Create:   specStatus.begin,
		Validate: validation.ReplicaSet,
		Update:   change[*appsv1.ReplicaSet]{Prepare: specStatus.keepStatus, Validate: validation.ReplicaSetUpdate},
		Subresources: map[string]change[*appsv1.ReplicaSet]{"status": {
			Prepare: specStatus.keepSpec, Validate: validation.ReplicaSetStatus,
		}},
		Warnings:         func(rs *appsv1.ReplicaSet) []string { return warnings.PodTemplate(&rs.Spec.Template, templatePath()) },
		CreationWarnings: func(rs *appsv1.ReplicaSet) []string { return warnings.WorkloadName(rs.Name) },
		FieldLabels:      []string{"status.replicas"},
		Fields: func(rs *appsv1.ReplicaSet) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(rs.Status.Replicas))}
		},
	}.strategy()
}

func controllerRevision() *kinds.Definition {
	return of[*appsv1.ControllerRevision]{
		Level:    kinds.Full,
		Validate: validation.ControllerRevision,
		Update:   change[*appsv1.ControllerRevision]{Validate: validation.ControllerRevisionUpdate},
	}.strategy()
}
