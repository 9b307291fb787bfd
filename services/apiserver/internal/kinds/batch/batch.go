package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// Above both of these, Kubernetes' controller may lose track of the indexes of a job.
const (
	manyCompletions = 100_000
	muchParallelism = 10_000
)

func jobWarnings(spec *batchv1.JobSpec, path *field.Path) []string {
	var found []string
	indexed := spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
	if indexed && spec.Completions != nil && *spec.Completions > manyCompletions && spec.Parallelism != nil && *spec.Parallelism > muchParallelism {
		found = append(found, path.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(found, podtemplate.PodTemplateWarnings(&spec.Template, path.Child("template"))...)
}
