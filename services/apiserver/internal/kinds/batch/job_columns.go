package batch

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

func jobColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Status", "Status of the job."),
		columns.Text("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
		columns.Text("Duration", "Time required to complete the job."),
		columns.Age(),
		columns.Wide(columns.Text("Containers", columns.ContainersDescription)),
		columns.Wide(columns.Text("Images", columns.ImagesDescription)),
		columns.Wide(columns.Text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])),
	}, func(j *batchv1.Job, now time.Time) []any {
		containers, images := columns.Template(&j.Spec.Template)
		return []any{j.Name, jobStatus(j), jobCompletions(j), jobDuration(j, now), columns.AgeOf(j, now), containers, images, columns.Selector(j.Spec.Selector)}
	})
}
