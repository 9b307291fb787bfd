// Package denyserviceexternalips is the plugin DenyServiceExternalIPs.
package denyserviceexternalips

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin. It refuses every external IP that a service doesn't have yet.
func Plugin() admission.Plugin { return admission.Plugin{Validate: check} }

func check(_ context.Context, req *admission.Request) error {
	service, ok := req.Object.(*corev1.Service)
	if !ok || req.Verb == admission.Delete || req.Subresource != "" {
		return nil
	}
	var present []string
	if old, ok := req.Old.(*corev1.Service); ok {
		present = old.Spec.ExternalIPs
	}
	if slices.ContainsFunc(service.Spec.ExternalIPs, func(ip string) bool { return !slices.Contains(present, ip) }) {
		return admission.Forbidden(req, errors.New("Use of external IPs is denied by admission control")) //nolint:revive,staticcheck // Kubernetes' text.
	}
	return nil
}
