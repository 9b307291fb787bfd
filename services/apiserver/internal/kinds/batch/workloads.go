package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// defaultJobTemplate sets the defaults that jobs and job templates share.
func defaultJobTemplate(spec *batchv1.JobSpec) {
	podtemplate.DefaultPodTemplate(&spec.Template)
	if spec.PodFailurePolicy == nil {
		return
	}
	for i := range spec.PodFailurePolicy.Rules {
		patterns := spec.PodFailurePolicy.Rules[i].OnPodConditions
		for j := range patterns {
			kinds.FillString(&patterns[j].Status, corev1.ConditionTrue)
		}
	}
}
