package core

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// Namespace defines the kind Namespace.
func Namespace() *kinds.Definition {
	return kinds.Of[*corev1.Namespace]{
		Columns: namespaceColumns(),
		Level:   kinds.Full,
		Default: defaultNamespace,
		Create: func(n *corev1.Namespace) {
			n.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
			if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
				n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
			}
		},
		Validate:     validateNamespace,
		Canonicalize: defaultNamespace,
		Update: kinds.ChangeOf[*corev1.Namespace]{
			Prepare: func(n, old *corev1.Namespace) {
				n.Spec.Finalizers = slices.Clone(old.Spec.Finalizers)
				n.Status = *old.Status.DeepCopy()
			},
			Validate: validateNamespaceUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[*corev1.Namespace]{
			"status": {
				Prepare:  func(n, old *corev1.Namespace) { n.Spec = *old.Spec.DeepCopy() },
				Validate: validateNamespaceStatus,
			},
			"finalize": {
				Prepare:  func(n, old *corev1.Namespace) { n.Status = *old.Status.DeepCopy() },
				Validate: validateNamespaceFinalize,
			},
		},
		FieldLabels: []string{"status.phase", "name"},
		Fields: func(n *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(n.Status.Phase), "name": n.Name}
		},
		Held:          func(n *corev1.Namespace) bool { return len(n.Spec.Finalizers) > 0 },
		Terminating:   func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating },
		ReturnDeleted: true,
	}.Definition()
}

func validateNamespaceUpdate(n, _ *corev1.Namespace) field.ErrorList { return validateNamespace(n) }

// defaultNamespace sets the defaults of a namespace, and labels it with its name.
func defaultNamespace(n *corev1.Namespace) {
	kinds.FillString(&n.Status.Phase, corev1.NamespaceActive)
	if n.Name == "" || n.Labels[corev1.LabelMetadataName] == n.Name {
		return
	}
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = n.Name
	n.Labels = labels
}

func namespaceColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Status", "The status of the namespace"), columns.Age(),
	}, func(n *corev1.Namespace, now time.Time) []any {
		return []any{n.Name, string(n.Status.Phase), columns.AgeOf(n, now)}
	})
}
