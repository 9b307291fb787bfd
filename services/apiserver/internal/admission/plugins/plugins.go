// Package plugins lists Kubernetes' built-in admission plugins in Kubernetes' order, and puts the
// enabled ones together. The quota of a namespace is charged last, when nothing else can refuse the
// write.
package plugins

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/alwayspullimages"
	"github.com/garboard/garboard/services/apiserver/internal/admission/certificates"
	"github.com/garboard/garboard/services/apiserver/internal/admission/limits"
	"github.com/garboard/garboard/services/apiserver/internal/admission/namespacelifecycle"
	"github.com/garboard/garboard/services/apiserver/internal/admission/noderestriction"
	"github.com/garboard/garboard/services/apiserver/internal/admission/ownerreferences"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podsecurity"
	"github.com/garboard/garboard/services/apiserver/internal/admission/priority"
	"github.com/garboard/garboard/services/apiserver/internal/admission/quota"
	"github.com/garboard/garboard/services/apiserver/internal/admission/runtimeclass"
	"github.com/garboard/garboard/services/apiserver/internal/admission/serviceaccount"
	"github.com/garboard/garboard/services/apiserver/internal/admission/storageclass"
	"github.com/garboard/garboard/services/apiserver/internal/admission/taints"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Config configures the plugins. Table and Lookup are required.
type Config struct {
	// Table is the set of served kinds.
	Table *scheme.Table
	// Lookup reads other objects.
	Lookup admission.Lookup
	// Authorizer answers the plugins that check the user's rights. Without it, those that need it
	// are left out.
	Authorizer authz.Authorizer
	// Extra are plugins that Kubernetes doesn't have. They run just before ResourceQuota, and
	// always.
	Extra []admission.Plugin
	// Enable and Disable name plugins to run, or not to run, against the default.
	Enable, Disable []string
}

func (c Config) objects() admission.Objects {
	return admission.Objects{Table: c.Table, Lookup: c.Lookup}
}

// entry is one plugin in the list.
type entry struct {
	name   string
	plugin constructor
	flags  flags
}

// constructor returns a plugin without its name.
type constructor func(Config) (admission.Plugin, error)

type flags int

const (
	// off marks a plugin that runs only if it is enabled, as in Kubernetes.
	off flags = 1 << iota
	// asks marks a plugin that needs the authorizer.
	asks
)

// list returns all plugins in Kubernetes' order.
func list() []entry {
	return []entry{
		{"NamespaceLifecycle", reading(namespacelifecycle.Plugin), 0},
		{"LimitRanger", reading(limits.Plugin), 0},
		{"ServiceAccount", reading(serviceaccount.Plugin), 0},
		{"NodeRestriction", nodeRestriction, 0},
		{"TaintNodesByCondition", alone(taints.NodesByCondition), 0},
		{"AlwaysPullImages", alone(alwayspullimages.Plugin), off},
		{"PodSecurity", podSecurity, 0},
		{"Priority", reading(priority.Plugin), 0},
		{"DefaultTolerationSeconds", alone(taints.DefaultTolerationSeconds), 0},
		{"DefaultStorageClass", reading(storageclass.Default), 0},
		{"OwnerReferencesPermissionEnforcement", ownerReferences, off | asks},
		{"PersistentVolumeClaimResize", reading(storageclass.ClaimResize), 0},
		{"RuntimeClass", reading(runtimeclass.Plugin), 0},
		{"CertificateApproval", asking(certificates.Approval), asks},
		{"CertificateSigning", asking(certificates.Signing), asks},
		{"CertificateSubjectRestriction", alone(certificates.SubjectRestriction), 0},
		// Config.Extra run here.
		{resourceQuota, reading(quota.Plugin), 0},
	}
}

const resourceQuota = "ResourceQuota"

// alone, reading and asking adapt the constructors of plugins that need nothing, other objects, and
// the authorizer.
func alone(plugin func() admission.Plugin) constructor {
	return func(Config) (admission.Plugin, error) { return plugin(), nil }
}

func reading(plugin func(admission.Objects) admission.Plugin) constructor {
	return func(c Config) (admission.Plugin, error) { return plugin(c.objects()), nil }
}

func asking(plugin func(authz.Authorizer) admission.Plugin) constructor {
	return func(c Config) (admission.Plugin, error) { return plugin(c.Authorizer), nil }
}

func nodeRestriction(c Config) (admission.Plugin, error) {
	return noderestriction.Plugin(c.objects(), c.Authorizer), nil
}

func podSecurity(c Config) (admission.Plugin, error) { return podsecurity.Plugin(c.objects()) }

func ownerReferences(c Config) (admission.Plugin, error) {
	return ownerreferences.Plugin(c.Table, c.Authorizer), nil
}

// Names returns the names that can be enabled and disabled, in the order in which the plugins run.
func Names() []string {
	var names []string
	for _, e := range list() {
		names = append(names, e.name)
	}
	return names
}

// New returns the chain of the enabled plugins. An unknown name is an error that lists the known
// ones.
func New(cfg Config) (*admission.Chain, error) {
	if cfg.Table == nil || cfg.Lookup == nil {
		return nil, errors.New("building the admission chain: a table and a lookup are required")
	}
	if err := CheckNames(cfg.Enable, cfg.Disable); err != nil {
		return nil, fmt.Errorf("building the admission chain: %w", err)
	}
	names := Names()
	for _, p := range cfg.Extra {
		if slices.Contains(names, p.Name) {
			return nil, fmt.Errorf("building the admission chain: there are two plugins named %q", p.Name)
		}
		names = append(names, p.Name)
	}
	var plugins []admission.Plugin
	for _, e := range list() {
		if e.name == resourceQuota {
			plugins = append(plugins, cfg.Extra...)
		}
		if !cfg.runs(e) {
			continue
		}
		plugin, err := e.plugin(cfg)
		if err != nil {
			return nil, fmt.Errorf("building the admission plugin %s: %w", e.name, err)
		}
		plugin.Name = e.name
		plugins = append(plugins, plugin)
	}
	return admission.NewChain(plugins...), nil
}

// runs reports whether a plugin is enabled, and has what it needs.
func (c Config) runs(e entry) bool {
	if e.flags&asks != 0 && c.Authorizer == nil {
		return false
	}
	if slices.Contains(c.Enable, e.name) {
		return true
	}
	return e.flags&off == 0 && !slices.Contains(c.Disable, e.name)
}

// CheckNames returns what is wrong with the plugins to enable and to disable: each must be a known
// plugin, and none may be in both lists.
func CheckNames(enable, disable []string) error {
	known := Names()
	var errs []error
	check := func(flag string, names []string) {
		for _, name := range names {
			if !slices.Contains(known, name) {
				errs = append(errs, fmt.Errorf("%s plugin %q is unknown; the plugins are %s", flag, name, strings.Join(known, ", ")))
			}
		}
	}
	check("enable-admission-plugins", enable)
	check("disable-admission-plugins", disable)
	both := slices.DeleteFunc(slices.Clone(enable), func(name string) bool { return !slices.Contains(disable, name) })
	if len(both) > 0 {
		errs = append(errs, fmt.Errorf("%v in enable-admission-plugins and disable-admission-plugins overlapped", both))
	}
	return errors.Join(errs...)
}
