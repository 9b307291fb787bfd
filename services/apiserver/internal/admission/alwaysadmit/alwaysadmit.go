// Package alwaysadmit is the plugin AlwaysAdmit.
package alwaysadmit

import (
	"context"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin, which Kubernetes has deprecated: it admits every request, and leaves the
// decision to the others.
func Plugin() admission.Plugin {
	return admission.Plugin{Mutate: admit, Validate: admit, Connections: true}
}

func admit(context.Context, *admission.Request) error { return nil }
