package apps

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/volume"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// StatefulSet defines the kind StatefulSet.
func StatefulSet() *kinds.Definition {
	type set = *appsv1.StatefulSet
	specStatus := kinds.SpecStatusOf(func(s set) (*appsv1.StatefulSetSpec, *appsv1.StatefulSetStatus) { return &s.Spec, &s.Status })
	return kinds.Of[set]{
		Columns: statefulSetColumns(),
		Replicas: kinds.ReplicasOf(func(s set) (**int32, int32, *metav1.LabelSelector) {
			return &s.Spec.Replicas, s.Status.Replicas, s.Spec.Selector
		}),
		Level:    kinds.Full,
		Default:  defaultStatefulSet,
		Create:   specStatus.Begin,
		Validate: validateStatefulSet,
		Update: kinds.ChangeOf[set]{Prepare: specStatus.KeepStatus, Validate: validateStatefulSetUpdate, Warnings: func(s, old set) []string {
			var found []string
			if s.Generation != old.Generation {
				found = podtemplate.PodTemplateWarnings(&s.Spec.Template, templatePath())
			}
			return append(found, statefulSetWarnings(s, "Spec")...) // Kubernetes' path has this part only here.
		}},
		Subresources: map[string]kinds.ChangeOf[set]{"status": {Prepare: specStatus.KeepSpec, Validate: validateStatefulSetStatus}},
		Warnings: func(s set) []string {
			return append(podtemplate.PodTemplateWarnings(&s.Spec.Template, templatePath()), statefulSetWarnings(s, "")...)
		},
	}.Definition()
}

// statefulSetWarnings returns the warnings about a stateful set's claims, in whose paths child comes last if
// it is not empty, and about its history.
func statefulSetWarnings(s *appsv1.StatefulSet, child string) []string {
	var found []string
	for i := range s.Spec.VolumeClaimTemplates {
		at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		if child != "" {
			at = at.Child(child)
		}
		found = append(found, podtemplate.ClaimWarnings(&s.Spec.VolumeClaimTemplates[i].Spec, at)...)
	}
	if limit := s.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		found = append(found, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return found
}

// defaultStatefulSet sets the defaults of a stateful set and its claims.
func defaultStatefulSet(s *appsv1.StatefulSet) {
	podtemplate.DefaultPodTemplate(&s.Spec.Template)
	kinds.Fill(&s.Spec.Replicas, int32(defaultReplicas))
	kinds.Fill(&s.Spec.RevisionHistoryLimit, int32(revisionHistory))
	kinds.FillString(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	update := &s.Spec.UpdateStrategy
	if update.Type == "" {
		update.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if update.RollingUpdate == nil {
			update.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if update.RollingUpdate != nil {
		kinds.Fill(&update.RollingUpdate.Partition, int32(0))
		if update.Type == appsv1.RollingUpdateStatefulSetStrategyType {
			kinds.Fill(&update.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		}
	}
	if s.Spec.PersistentVolumeClaimRetentionPolicy == nil {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	kinds.FillString(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	kinds.FillString(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	for i := range s.Spec.VolumeClaimTemplates {
		claim := &s.Spec.VolumeClaimTemplates[i]
		claim.APIVersion, claim.Kind = "v1", "PersistentVolumeClaim"
		volume.DefaultPersistentVolumeClaim(claim)
	}
}

func statefulSetColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Ready", "Number of the pod with ready state"),
		columns.Age(),
		columns.Wide(columns.Text("Containers", columns.ContainersDescription)),
		columns.Wide(columns.Text("Images", columns.ImagesDescription)),
	}, func(s *appsv1.StatefulSet, now time.Time) []any {
		containers, images := columns.Template(&s.Spec.Template)
		return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, wanted(s.Spec.Replicas)), columns.AgeOf(s, now), containers, images}
	})
}
