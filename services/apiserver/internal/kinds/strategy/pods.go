package strategy

import (
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	validation "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/apps"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/warnings"
)

func statefulSet() *kinds.Definition {
	type set = *appsv1.StatefulSet
	specStatus := specStatusOf(func(s set) (*appsv1.StatefulSetSpec, *appsv1.StatefulSetStatus) { return &s.Spec, &s.Status })
	return of[set]{
		Level:        kinds.Full,
		Default:      defaults.StatefulSet,
		Create:       specStatus.begin,
		Validate:     validation.StatefulSet,
		Update:       change[set]{Prepare: specStatus.keepStatus, Validate: validation.StatefulSetUpdate},
		Subresources: map[string]change[set]{"status": {Prepare: specStatus.keepSpec, Validate: validation.StatefulSetStatus}},
		Warnings: func(s set) []string {
			found := warnings.PodTemplate(&s.Spec.Template, templatePath())
			for i := range s.Spec.VolumeClaimTemplates {
				at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
				found = append(found, warnings.ClaimSpec(&s.Spec.VolumeClaimTemplates[i].Spec, at)...)
			}
			if limit := s.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
				found = append(found, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
			}
			return found
		},
	}.strategy()
}

func daemonSet() *kinds.Definition {
	type set = *appsv1.DaemonSet
	specStatus := specStatusOf(func(d set) (*appsv1.DaemonSetSpec, *appsv1.DaemonSetStatus) { return &d.Spec, &d.Status })
	return of[set]{
		Level:   kinds.Full,
		Default: defaults.DaemonSet,
		Create: func(d set) {
			specStatus.begin(d)
			numberTemplate(d, max(1, templateNumber(d)))
		},
		Validate: validation.DaemonSet,
		Update: change[set]{
			Prepare: func(d, old set) {
				specStatus.keepStatus(d, old)
				number := max(1, templateNumber(old))
				if !apiequality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template) {
					number++
				}
				numberTemplate(d, number)
			},
			Validate: validation.DaemonSetUpdate,
		},
		Subresources: map[string]change[set]{"status": {Prepare: specStatus.keepSpec, Validate: validation.DaemonSetStatus}},
		Warnings:     func(d set) []string { return warnings.PodTemplate(&d.Spec.Template, templatePath()) },
	}.strategy()
}

// templateNumber returns the generation of a daemon set's template, which an annotation holds since
// the field was removed; 0 if there is none.
func templateNumber(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func numberTemplate(d *appsv1.DaemonSet, number int64) {
	annotations := maps.Clone(d.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(number, 10)
	d.Annotations = annotations
}

func replicationController() *kinds.Definition {
	type controller = *corev1.ReplicationController
	specStatus := specStatusOf(func(rc controller) (*corev1.ReplicationControllerSpec, *corev1.ReplicationControllerStatus) {
		return &rc.Spec, &rc.Status
	})
	s := of[controller]{
		Level:        kinds.Full,
		Default:      defaults.ReplicationController,
		Create:       specStatus.begin,
		Validate:     validation.ReplicationController,
		Update:       change[controller]{Prepare: specStatus.keepStatus, Validate: validation.ReplicationControllerUpdate},
		Subresources: map[string]change[controller]{"status": {Prepare: specStatus.keepSpec, Validate: validation.ReplicationControllerStatus}},
		Warnings: func(rc controller) []string {
			if rc.Spec.Template == nil {
				return nil
			}
			return warnings.PodTemplate(rc.Spec.Template, templatePath())
		},
		CreationWarnings: func(rc controller) []string { return warnings.WorkloadName(rc.Name) },
		FieldLabels:      []string{"status.replicas"},
		Fields: func(rc controller) fields.Set {
			return fields.Set{"status.replicas": fmt.Sprint(rc.Status.Replicas)}
		},
	}.strategy()
	s.Orphans = true
	return s
}

func podTemplate() *kinds.Definition {
	type template = *corev1.PodTemplate
	return of[template]{
		Level:    kinds.Full,
		Default:  defaults.PodTemplateObject,
		Create:   func(t template) { t.Generation = 1 },
		Validate: validation.PodTemplate,
		Update: change[template]{
			Prepare: func(t, old template) {
				if !apiequality.Semantic.DeepEqual(t.Template, old.Template) {
					t.Generation = old.Generation + 1
				}
			},
			Validate: validation.PodTemplateUpdate,
		},
		Warnings:      func(t template) []string { return warnings.PodTemplate(&t.Template, field.NewPath("template")) },
		ReturnDeleted: true,
	}.strategy()
}

// templatePath is the path of the pod template in most workloads.
func templatePath() *field.Path { return field.NewPath("spec", "template") }
