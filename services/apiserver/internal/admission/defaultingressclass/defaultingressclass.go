// Package defaultingressclass is the plugin DefaultIngressClass.
package defaultingressclass

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// classAnnotation is how old clients name a class.
const classAnnotation = "kubernetes.io/ingress.class"

// Plugin returns the plugin. It sets the default class on a new Ingress that names none. If there
// are several defaults, the newest is used.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Mutate: func(ctx context.Context, req *admission.Request) error {
		ingress, ok := req.Object.(*networkingv1.Ingress)
		if !ok || req.Verb != admission.Create || req.Subresource != "" || ingress.Spec.IngressClassName != nil {
			return nil
		}
		if _, named := ingress.Annotations[classAnnotation]; named {
			return nil
		}
		classes, err := admission.List[*networkingv1.IngressClass](ctx, objects, "")
		if err != nil {
			return admission.Forbidden(req, err)
		}
		name, ok := admission.NewestDefault(classes, func(c *networkingv1.IngressClass) bool {
			return c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
		})
		if ok {
			ingress.Spec.IngressClassName = &name
		}
		return nil
	}}
}
