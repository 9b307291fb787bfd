// Package podgroupprotection is the plugin PodGroupProtection.
package podgroupprotection

import (
	"context"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// finalizer keeps a PodGroup while pods name it.
const finalizer = "scheduling.k8s.io/podgroup-protection"

// Plugin returns the plugin. With Kubernetes' feature gate GenericWorkload, it adds a finalizer to
// each new PodGroup, which a controller removes when no pod names the group; otherwise it does
// nothing.
func Plugin(gate bool) admission.Plugin {
	if !gate {
		return admission.Plugin{}
	}
	return admission.Plugin{Mutate: protect}
}

func protect(_ context.Context, req *admission.Request) error {
	if req.Verb != admission.Create || req.Subresource != "" || req.Kind.Group != schedulingv1.GroupName || req.Kind.Resource != "podgroups" {
		return nil
	}
	if present := req.Object.GetFinalizers(); !slices.Contains(present, finalizer) {
		req.Object.SetFinalizers(append(present, finalizer))
	}
	return nil
}
