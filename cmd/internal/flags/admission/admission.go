// Package admission declares the flags for admission plugins, for the commands that run an apiserver.
package admission

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/apiserver"
)

// Flags declares the flags that select and configure the admission plugins.
func Flags(flags *pflag.FlagSet, cfg *apiserver.Admission) {
	daemon.Group(flags, "Admission", func(set *pflag.FlagSet) {
		set.StringSliceVar(&cfg.Enable, "enable-admission-plugins", nil, "admission plugins to run in addition to the default ones: "+strings.Join(apiserver.AdmissionPlugins(), ", "))
		set.StringSliceVar(&cfg.Disable, "disable-admission-plugins", nil, "default admission plugins not to run")
		set.StringVar(&cfg.ConfigFile, "admission-control-config-file", "", "file of kind AdmissionConfiguration in apiserver.config.k8s.io/v1, which configures admission plugins; when empty, none is configured")
	})
}
