package apps

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// DaemonSet defines the kind DaemonSet.
func DaemonSet() *kinds.Definition {
	type set = *appsv1.DaemonSet
	specStatus := kinds.SpecStatusOf(func(d set) (*appsv1.DaemonSetSpec, *appsv1.DaemonSetStatus) { return &d.Spec, &d.Status })
	return kinds.Of[set]{
		Columns: daemonSetColumns(),
		Level:   kinds.Full,
		Default: defaultDaemonSet,
		Create: func(d set) {
			specStatus.Begin(d)
			numberTemplate(d, max(1, templateNumber(d)))
		},
		Validate: validateDaemonSet,
		Update: kinds.ChangeOf[set]{
			Prepare: func(d, old set) {
				specStatus.KeepStatus(d, old)
				number := templateNumber(old)
				if !apiequality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template) {
					number++
				}
				numberTemplate(d, number)
			},
			Validate: validateDaemonSetUpdate,
			Warnings: func(d, old set) []string {
				if templateNumber(d) == templateNumber(old) {
					return nil
				}
				return daemonSetWarnings(d)
			},
		},
		Subresources: map[string]kinds.ChangeOf[set]{"status": {
			Prepare: func(d, old set) {
				specStatus.KeepSpec(d, old)
				numberTemplate(d, templateNumber(old))
			},
			Validate: validateDaemonSetStatus,
		}},
		Warnings: daemonSetWarnings,
	}.Definition()
}

func daemonSetWarnings(d *appsv1.DaemonSet) []string {
	return podtemplate.PodTemplateWarnings(&d.Spec.Template, templatePath())
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

// defaultDaemonSet sets the defaults of a daemon set.
func defaultDaemonSet(d *appsv1.DaemonSet) {
	podtemplate.DefaultPodTemplate(&d.Spec.Template)
	kinds.Fill(&d.Spec.RevisionHistoryLimit, int32(revisionHistory))
	kinds.FillString(&d.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	update, unavailable := &d.Spec.UpdateStrategy, int32(0) // Of a strategy that does not roll, nothing reads it.
	if update.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		unavailable = 1
		if update.RollingUpdate == nil {
			update.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
	}
	if update.RollingUpdate != nil {
		kinds.Fill(&update.RollingUpdate.MaxUnavailable, intstr.FromInt32(unavailable))
		kinds.Fill(&update.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
}
