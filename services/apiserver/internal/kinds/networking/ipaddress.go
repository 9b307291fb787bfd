package networking

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// IPAddress has no generation: its spec never changes.
func IPAddress() *kinds.Definition {
	return kinds.Of[*networkingv1.IPAddress]{
		Columns:  ipAddressColumns(),
		Level:    kinds.Full,
		Validate: validateIPAddress,
		Update:   kinds.ChangeOf[*networkingv1.IPAddress]{Validate: validateIPAddressUpdate},
	}.Definition()
}

// ipAddressColumns has no age: Kubernetes returns a cell for it but no column, so it is never shown.
func ipAddressColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
	}, func(a *networkingv1.IPAddress, _ time.Time) []any {
		parent := columns.None
		if ref := a.Spec.ParentRef; ref != nil {
			of := schema.GroupResource{Group: ref.Group, Resource: ref.Resource}
			parent = strings.ToLower(of.String())
			if ref.Namespace != "" {
				parent += "/" + ref.Namespace
			}
			parent += "/" + ref.Name
		}
		return []any{a.Name, parent}
	})
}
