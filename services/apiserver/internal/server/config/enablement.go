package config

import (
	"errors"
	"fmt"

	"github.com/garboard/garboard/services/apiserver/internal/server/enablement"
)

// Enablement turns features and API versions on or off, as Kubernetes' flags do. Only values that change
// nothing are valid; see the package enablement.
type Enablement struct {
	// FeatureGates are KEY=VALUE pairs by component; the empty component is kube.
	FeatureGates map[string][]string
	// RuntimeConfig has values by key, such as apps/v1 or api/all.
	RuntimeConfig map[string]string
}

func (e *Enablement) complete() error {
	var errs []error
	if err := enablement.CheckGates(e.FeatureGates); err != nil {
		errs = append(errs, fmt.Errorf("checking --feature-gates: %w", err))
	}
	if err := enablement.CheckVersions(e.RuntimeConfig); err != nil {
		errs = append(errs, fmt.Errorf("checking --runtime-config: %w", err))
	}
	return errors.Join(errs...)
}
