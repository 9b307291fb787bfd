package admissionregistration

import (
	"cmp"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

func webhookColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		columns.Name(), columns.Number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), columns.Age(),
	}
}

func parameterKind(kind *admissionregistrationv1.ParamKind) string {
	if kind == nil {
		return columns.Unset
	}
	return kind.APIVersion + "/" + kind.Kind
}

func policyBindingColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		columns.Text("ParamRef", "ParamRef indicates the param resource which sets the configration param"), //nolint:misspell // Spelled like this in Kubernetes.
		columns.Age(),
	}
}

// parameters names the parameters of a policy: an object, in any namespace if none is given, or all
// objects that a selector matches.
func parameters(ref *admissionregistrationv1.ParamRef) string {
	switch {
	case ref == nil:
	case ref.Name != "":
		return cmp.Or(ref.Namespace, "*") + "/" + ref.Name
	case ref.Selector != nil:
		return ref.Selector.String()
	}
	return columns.Unset
}
