package apps

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// Deployment defines the kind Deployment.
func Deployment() *kinds.Definition {
	specStatus := kinds.SpecStatusOf(func(d *appsv1.Deployment) (*appsv1.DeploymentSpec, *appsv1.DeploymentStatus) {
		return &d.Spec, &d.Status
	})
	return kinds.Of[*appsv1.Deployment]{
		Columns: deploymentColumns(),
		Replicas: kinds.ReplicasOf(func(d *appsv1.Deployment) (**int32, int32, *metav1.LabelSelector) {
			return &d.Spec.Replicas, d.Status.Replicas, d.Spec.Selector
		}),
		Level:    kinds.Full,
		Default:  defaultDeployment,
		Create:   specStatus.Begin,
		Validate: validateDeployment,
		Update: kinds.ChangeOf[*appsv1.Deployment]{
			Prepare: func(d, old *appsv1.Deployment) {
				specStatus.KeepStatus(d, old)
				// Annotations count as well: the controller copies them to the replica sets.
				if !apiequality.Semantic.DeepEqual(d.Annotations, old.Annotations) {
					d.Generation = old.Generation + 1
				}
			},
			Validate: validateDeploymentUpdate,
			Warnings: kinds.IfSpecChanged(deploymentWarnings),
		},
		Subresources: map[string]kinds.ChangeOf[*appsv1.Deployment]{"status": {
			Prepare: func(d, old *appsv1.Deployment) {
				specStatus.KeepSpec(d, old)
				d.Labels = old.Labels
			},
			Validate: validateDeploymentStatus,
		}},
		Warnings:         deploymentWarnings,
		CreationWarnings: func(d *appsv1.Deployment) []string { return podtemplate.WorkloadNameWarnings(d.Name) },
	}.Definition()
}

func deploymentWarnings(d *appsv1.Deployment) []string {
	return podtemplate.PodTemplateWarnings(&d.Spec.Template, templatePath())
}

// defaultDeployment sets the defaults of a deployment.
func defaultDeployment(d *appsv1.Deployment) {
	podtemplate.DefaultPodTemplate(&d.Spec.Template)
	kinds.Fill(&d.Spec.Replicas, int32(defaultReplicas))
	kinds.Fill(&d.Spec.RevisionHistoryLimit, int32(revisionHistory))
	kinds.Fill(&d.Spec.ProgressDeadlineSeconds, int32(progressDeadline))
	kinds.FillString(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	share := intstr.FromInt32(0) // of a strategy that does not roll, and must not have one
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		share = intstr.FromString(surge)
		if d.Spec.Strategy.RollingUpdate == nil {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
	}
	if d.Spec.Strategy.RollingUpdate != nil {
		kinds.Fill(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, share)
		kinds.Fill(&d.Spec.Strategy.RollingUpdate.MaxSurge, share)
	}
}

func deploymentColumns() *columns.Layout {
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Ready", "Number of the pod with ready state"),
		columns.Text("Up-to-date", status["updatedReplicas"]),
		columns.Text("Available", status["availableReplicas"]),
		columns.Age(),
		columns.Wide(columns.Text("Containers", columns.ContainersDescription)),
		columns.Wide(columns.Text("Images", columns.ImagesDescription)),
		columns.Wide(columns.Text("Selector", spec["selector"])),
	}, func(d *appsv1.Deployment, now time.Time) []any {
		containers, images := columns.Template(&d.Spec.Template)
		return []any{
			d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, wanted(d.Spec.Replicas)), int64(d.Status.UpdatedReplicas),
			int64(d.Status.AvailableReplicas), columns.AgeOf(d, now), containers, images, deploymentSelector(d.Spec.Selector),
		}
	})
}

// deploymentSelector returns the selector of a deployment as kubectl prints it: unlike that of other
// workloads, nothing if it selects all pods or none.
func deploymentSelector(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}

// atMostAll checks that a percentage is not above 100.
func atMostAll(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if n, ok := values.Percent(value); ok && n > 100 {
		return field.ErrorList{field.Invalid(path, value, "must not be greater than 100%")}
	}
	return nil
}
