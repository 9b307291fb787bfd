// Package alwaysdeny is the plugin AlwaysDeny.
package alwaysdeny

import (
	"context"
	"errors"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin, which Kubernetes has deprecated: it refuses every request.
func Plugin() admission.Plugin {
	return admission.Plugin{Mutate: deny, Validate: deny, Connections: true}
}

func deny(_ context.Context, req *admission.Request) error {
	return admission.Forbidden(req, errors.New("admission control is denying all modifications"))
}
