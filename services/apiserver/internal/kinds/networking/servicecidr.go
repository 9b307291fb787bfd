package networking

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ServiceCIDR has no generation, as in Kubernetes.
func ServiceCIDR() *kinds.Definition {
	return kinds.Of[*networkingv1.ServiceCIDR]{
		Columns:  serviceCIDRColumns(),
		Level:    kinds.Full,
		Create:   func(c *networkingv1.ServiceCIDR) { c.Status = networkingv1.ServiceCIDRStatus{} },
		Validate: validateServiceCIDR,
		Update: kinds.ChangeOf[*networkingv1.ServiceCIDR]{
			Prepare:  func(c, old *networkingv1.ServiceCIDR) { c.Status = *old.Status.DeepCopy() },
			Validate: validateServiceCIDRUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[*networkingv1.ServiceCIDR]{"status": {
			Prepare: func(c, old *networkingv1.ServiceCIDR) {
				before := old.DeepCopy()
				c.Spec = before.Spec
				metav1.ResetObjectMetaForStatus(&c.ObjectMeta, &before.ObjectMeta)
			},
		}},
	}.Definition()
}

func serviceCIDRColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]), columns.Age(),
	}, func(c *networkingv1.ServiceCIDR, now time.Time) []any {
		return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), columns.AgeOf(c, now)}
	})
}
