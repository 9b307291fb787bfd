package strategy

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/validation"
)

func configMap() *Strategy {
	return of[*corev1.ConfigMap]{
		Validate: validation.ConfigMap,
		Update:   change[*corev1.ConfigMap]{Validate: validation.ConfigMapUpdate},
	}.strategy()
}

func secret() *Strategy {
	return of[*corev1.Secret]{
		Default:  defaults.Secret,
		Validate: validation.Secret,
		Update: change[*corev1.Secret]{
			Validate: validation.SecretUpdate,
		},
		FieldLabels: []string{"type"},
		Fields:      func(s *corev1.Secret) fields.Set { return fields.Set{"type": string(s.Type)} },
	}.strategy()
}

func serviceAccount() *Strategy {
	return of[*corev1.ServiceAccount]{
		Validate: validation.ServiceAccount,
		Update: change[*corev1.ServiceAccount]{Validate: func(a, _ *corev1.ServiceAccount) field.ErrorList {
			return validation.ServiceAccount(a)
		}},
		ReturnDeleted: true,
	}.strategy()
}

func namespace() *Strategy {
	return of[*corev1.Namespace]{
		Default: defaults.Namespace,
		Create: func(n *corev1.Namespace) {
			n.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
			if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
				n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
			}
		},
		Validate:     validation.Namespace,
		Canonicalize: defaults.Namespace,
		Update: change[*corev1.Namespace]{
			Prepare: func(n, old *corev1.Namespace) {
				n.Spec.Finalizers = slices.Clone(old.Spec.Finalizers)
				n.Status = *old.Status.DeepCopy()
			},
			Validate: validateNamespaceUpdate,
		},
		Subresources: map[string]change[*corev1.Namespace]{
			"status": {
				Prepare:  func(n, old *corev1.Namespace) { n.Spec = *old.Spec.DeepCopy() },
				Validate: validation.NamespaceStatus,
			},
			"finalize": {
				Prepare:  func(n, old *corev1.Namespace) { n.Status = *old.Status.DeepCopy() },
				Validate: validateNamespaceUpdate,
			},
		},
		FieldLabels: []string{"status.phase", "name"},
		Fields: func(n *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(n.Status.Phase), "name": n.Name}
		},
		Held:          func(n *corev1.Namespace) bool { return len(n.Spec.Finalizers) > 0 },
		Terminating:   func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating },
		ReturnDeleted: true,
	}.strategy()
}

func node() *Strategy {
	return of[*corev1.Node]{
		Default:  defaults.Node,
		Validate: validation.Node,
		Update: change[*corev1.Node]{
			Prepare:  func(n, old *corev1.Node) { n.Status = *old.Status.DeepCopy() },
			Validate: validation.NodeUpdate,
		},
		Subresources: map[string]change[*corev1.Node]{"status": {
			Prepare:  func(n, old *corev1.Node) { n.Spec = *old.Spec.DeepCopy() },
			Validate: validation.NodeUpdate,
		}},
		FieldLabels: []string{"spec.unschedulable"},
		Fields: func(n *corev1.Node) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(n.Spec.Unschedulable)}
		},
	}.strategy()
}

func validateNamespaceUpdate(n, _ *corev1.Namespace) field.ErrorList { return validation.Namespace(n) }
