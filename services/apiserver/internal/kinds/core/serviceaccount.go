package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ServiceAccount defines the kind ServiceAccount.
func ServiceAccount() *kinds.Definition {
	return kinds.Of[*corev1.ServiceAccount]{
		Columns:  serviceAccountColumns(),
		Level:    kinds.Full,
		Create:   nameSecrets,
		Validate: validateServiceAccount,
		Update: kinds.ChangeOf[*corev1.ServiceAccount]{
			Prepare:  func(a, _ *corev1.ServiceAccount) { nameSecrets(a) },
			Validate: func(a, _ *corev1.ServiceAccount) field.ErrorList { return validateServiceAccount(a) },
		},
		CreationWarnings: serviceAccountWarnings,
		ReturnDeleted:    true,
	}.Definition()
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

func serviceAccountColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{columns.Name(), columns.Age()}, func(a *corev1.ServiceAccount, now time.Time) []any {
		return []any{a.Name, columns.AgeOf(a, now)}
	})
}
