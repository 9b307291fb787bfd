package networking

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// IngressClass defines the kind IngressClass.
func IngressClass() *kinds.Definition {
	return kinds.Of[*networkingv1.IngressClass]{
		Columns:  ingressClassColumns(),
		Level:    kinds.Full,
		Default:  defaultIngressClass,
		Create:   func(c *networkingv1.IngressClass) { c.Generation = 1 },
		Validate: validateIngressClass,
		Update: kinds.ChangeOf[*networkingv1.IngressClass]{
			Prepare: func(c, old *networkingv1.IngressClass) {
				if !apiequality.Semantic.DeepEqual(c.Spec, old.Spec) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: validateIngressClassUpdate,
		},
	}.Definition()
}

// defaultIngressClass sets the defaults of an ingress class: its parameters are cluster-scoped.
func defaultIngressClass(c *networkingv1.IngressClass) {
	if c.Spec.Parameters != nil {
		kinds.Fill(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func ingressClassColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Controller", "Controller that is responsible for handling this class"),
		columns.Text("Parameters", "A reference to a resource with additional parameters"),
		columns.Age(),
	}, func(c *networkingv1.IngressClass, now time.Time) []any {
		parameters := columns.None
		if p := c.Spec.Parameters; p != nil {
			parameters = p.Kind
			if p.APIGroup != nil {
				parameters += "." + *p.APIGroup
			}
			parameters += "/" + p.Name
		}
		return []any{c.Name, c.Spec.Controller, parameters, columns.AgeOf(c, now)}
	})
}
