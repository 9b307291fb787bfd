// Package enablement declares the flags for features and API versions, for the commands that run an
// apiserver.
package enablement

import (
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/apiserver"
)

// Flags declares Kubernetes' flags that turn features and API versions on or off.
func Flags(flags *pflag.FlagSet, cfg *apiserver.Enablement) {
	cfg.RuntimeConfig = map[string]string{}
	daemon.Group(flags, "Features", func(set *pflag.FlagSet) {
		set.Var(cliflag.NewColonSeparatedMultimapStringStringAllowDefaultEmptyKey(&cfg.FeatureGates), "feature-gates",
			"feature gates of Kubernetes, COMPONENT:KEY=VALUE or KEY=VALUE, separated by commas; only their defaults are accepted, since no feature can be switched")
		set.Var((*cliflag.ConfigurationMap)(&cfg.RuntimeConfig), "runtime-config",
			"API versions to enable or disable, GROUP/VERSION=true|false, api/all=true or api/ga=true, separated by commas; the generally available versions are always served, and no others")
	})
}
