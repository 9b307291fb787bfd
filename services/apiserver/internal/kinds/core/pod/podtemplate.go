package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// PodTemplate defines the kind PodTemplate.
func PodTemplate() *kinds.Definition {
	type template = *corev1.PodTemplate
	return kinds.Of[template]{
		Columns:  podTemplateColumns(),
		Level:    kinds.Full,
		Default:  defaultPodTemplateObject,
		Create:   func(t template) { t.Generation = 1 },
		Validate: validatePodTemplate,
		Update: kinds.ChangeOf[template]{
			Prepare: func(t, old template) {
				if !apiequality.Semantic.DeepEqual(t.Template, old.Template) {
					t.Generation = old.Generation + 1
				}
			},
			Validate: validatePodTemplateUpdate,
			Warnings: kinds.IfSpecChanged(podTemplateWarnings),
		},
		Warnings:      podTemplateWarnings,
		ReturnDeleted: true,
	}.Definition()
}

func podTemplateWarnings(t *corev1.PodTemplate) []string {
	return podtemplate.PodTemplateWarnings(&t.Template, field.NewPath("template"))
}

// defaultPodTemplateObject sets the defaults of a PodTemplate object.
func defaultPodTemplateObject(t *corev1.PodTemplate) { podtemplate.DefaultPodTemplate(&t.Template) }

func podTemplateColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Containers", columns.ContainersDescription),
		columns.Text("Images", columns.ImagesDescription),
		columns.Text("Pod Labels", "The labels for the pod template."),
	}, func(t *corev1.PodTemplate, _ time.Time) []any {
		containers, images := columns.Template(&t.Template)
		return []any{t.Name, containers, images, labels.FormatLabels(t.Template.Labels)}
	})
}
