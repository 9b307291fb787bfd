package strategy

import (
	"crypto/tls"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation"
)

func configMap() *kinds.Definition {
	return of[*corev1.ConfigMap]{
		Level:    kinds.Full,
		Validate: validation.ConfigMap,
		Update:   change[*corev1.ConfigMap]{Validate: validation.ConfigMapUpdate},
	}.strategy()
}

func secret() *kinds.Definition {
	return of[*corev1.Secret]{
		Level:    kinds.Full,
		Default:  defaults.Secret,
		Validate: validation.Secret,
		Update: change[*corev1.Secret]{
			Validate: validation.SecretUpdate,
		},
		Warnings:    secretWarnings,
		FieldLabels: []string{"type"},
		Fields:      func(s *corev1.Secret) fields.Set { return fields.Set{"type": string(s.Type)} },
	}.strategy()
}

func serviceAccount() *kinds.Definition {
	return of[*corev1.ServiceAccount]{
		Level:    kinds.Full,
		Create:   nameSecrets,
		Validate: validation.ServiceAccount,
		Update: change[*corev1.ServiceAccount]{
			Prepare:  func(a, _ *corev1.ServiceAccount) { nameSecrets(a) },
			Validate: func(a, _ *corev1.ServiceAccount) field.ErrorList { return validation.ServiceAccount(a) },
		},
		CreationWarnings: serviceAccountWarnings,
		ReturnDeleted:    true,
	}.strategy()
}

// secretWarnings warns about an invalid certificate or key.
func secretWarnings(s *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// nameSecrets reduces an account's references to secrets to their names.
func nameSecrets(a *corev1.ServiceAccount) {
	for i := range a.Secrets {
		a.Secrets[i] = corev1.ObjectReference{Name: a.Secrets[i].Name}
	}
}

func serviceAccountWarnings(a *corev1.ServiceAccount) []string {
	const enforce = "kubernetes.io/enforce-mountable-secrets"
	if _, ok := a.Annotations[enforce]; !ok {
		return nil
	}
	return []string{"metadata.annotations[" + enforce + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}

func namespace() *kinds.Definition {
	return of[*corev1.Namespace]{
		Level:   kinds.Full,
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
				Validate: validation.NamespaceFinalize,
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

func node() *kinds.Definition {
	return of[*corev1.Node]{
		Level:    kinds.Full,
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
		Warnings:    nodeWarnings,
		FieldLabels: []string{"spec.unschedulable"},
		Fields: func(n *corev1.Node) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(n.Spec.Unschedulable)}
		},
	}.strategy()
}

// nodeWarnings warns about fields that nothing reads any more, and about ranges that are not in
// canonical form.
func nodeWarnings(n *corev1.Node) []string {
	var found []string
	if n.Spec.ConfigSource != nil { //nolint:staticcheck // It is warned of.
		found = append(found, "spec.configSource: the feature is no longer supported")
	}
	if n.Spec.DoNotUseExternalID != "" {
		found = append(found, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range n.Spec.PodCIDRs {
		found = append(found, utilvalidation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
	}
	return found
}

func validateNamespaceUpdate(n, _ *corev1.Namespace) field.ErrorList { return validation.Namespace(n) }
