package apps

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// ReplicaSet defines the kind ReplicaSet.
func ReplicaSet() *kinds.Definition {
	specStatus := kinds.SpecStatusOf(func(rs *appsv1.ReplicaSet) (*appsv1.ReplicaSetSpec, *appsv1.ReplicaSetStatus) {
		return &rs.Spec, &rs.Status
	})
	return kinds.Of[*appsv1.ReplicaSet]{
		Columns: replicaSetColumns(),
		Replicas: kinds.ReplicasOf(func(rs *appsv1.ReplicaSet) (**int32, int32, *metav1.LabelSelector) {
			return &rs.Spec.Replicas, rs.Status.Replicas, rs.Spec.Selector
		}),
		Level:    kinds.Full,
		Default:  defaultReplicaSet,
		Create:   specStatus.Begin,
		Validate: validateReplicaSet,
		Update: kinds.ChangeOf[*appsv1.ReplicaSet]{
			Prepare: specStatus.KeepStatus, Validate: validateReplicaSetUpdate, Warnings: kinds.IfSpecChanged(replicaSetWarnings),
		},
		Subresources: map[string]kinds.ChangeOf[*appsv1.ReplicaSet]{"status": {
			Prepare: specStatus.KeepSpec, Validate: validateReplicaSetStatus,
		}},
		Warnings:         replicaSetWarnings,
		CreationWarnings: func(rs *appsv1.ReplicaSet) []string { return podtemplate.WorkloadNameWarnings(rs.Name) },
		FieldLabels:      []string{"status.replicas"},
		Fields: func(rs *appsv1.ReplicaSet) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(rs.Status.Replicas))}
		},
	}.Definition()
}

func replicaSetWarnings(rs *appsv1.ReplicaSet) []string {
	return podtemplate.PodTemplateWarnings(&rs.Spec.Template, templatePath())
}

// defaultReplicaSet sets the defaults of a replica set.
func defaultReplicaSet(rs *appsv1.ReplicaSet) {
	podtemplate.DefaultPodTemplate(&rs.Spec.Template)
	kinds.Fill(&rs.Spec.Replicas, int32(defaultReplicas))
}

func replicaSetColumns() *columns.Layout {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	return columns.Of(replicas(spec, status), func(rs *appsv1.ReplicaSet, now time.Time) []any {
		containers, images := columns.Template(&rs.Spec.Template)
		return []any{
			rs.Name, int64(wanted(rs.Spec.Replicas)), int64(rs.Status.Replicas), int64(rs.Status.ReadyReplicas),
			columns.AgeOf(rs, now), containers, images, columns.Selector(rs.Spec.Selector),
		}
	})
}
