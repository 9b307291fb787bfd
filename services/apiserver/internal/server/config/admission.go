package config

import "github.com/garboard/garboard/services/apiserver/internal/admission/plugins"

// Admission selects and configures the admission plugins.
type Admission struct {
	// Enable and Disable name, as Kubernetes does, plugins to run, or not to run, against the
	// default.
	Enable, Disable []string
	// ConfigFile is a file of kind AdmissionConfiguration in apiserver.config.k8s.io/v1, which
	// configures plugins; may be empty.
	ConfigFile string

	configurations map[string][]byte // read from ConfigFile by load
}

// Configurations returns the documents of the plugins that ConfigFile configures, by name.
func (a *Admission) Configurations() map[string][]byte { return a.configurations }

func (a *Admission) complete() error { return plugins.CheckNames(a.Enable, a.Disable) }

// load reads the configuration file, if one is set, and the files that it names.
func (a *Admission) load() (err error) {
	a.configurations, err = plugins.Configurations(a.ConfigFile, a.Enable, a.Disable)
	return err
}
