package policies

import (
	"fmt"

	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
	"github.com/garboard/garboard/services/apiserver/internal/admission/manifests"
)

// document is a ValidatingAdmissionPolicyConfiguration or a MutatingAdmissionPolicyConfiguration.
type document struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	StaticManifestsDir string `json:"staticManifestsDir"`
}

// openFiles returns the policies in the files that a plugin's configuration names; nil if it names none.
func openFiles(cfg Config, plugin string, mutating bool) (*manifests.Manifests, error) {
	if len(cfg.Document) == 0 {
		return nil, nil
	}
	var d document
	if err := configuration.DecodeKind(cfg.Document, &d, plugin+"Configuration", "apiserver.config.k8s.io/v1"); err != nil {
		return nil, fmt.Errorf("reading the configuration of admission policies: %w", err)
	}
	if err := manifests.CheckDir(d.StaticManifestsDir); err != nil || d.StaticManifestsDir == "" {
		return nil, err //nolint:wrapcheck // The text is Kubernetes'.
	}
	return manifests.Open(manifests.Config{ //nolint:wrapcheck // The text is Kubernetes'.
		Dir: d.StaticManifestsDir, Plugin: plugin, Policies: true, Mutating: mutating,
		Identity: cfg.Identity, Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
}
