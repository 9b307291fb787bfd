package podsecurity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/admission/api/validation"
	"k8s.io/pod-security-admission/api"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Settings is the plugin's configuration.
type Settings struct {
	defaults api.Policy
	exempt   admissionapi.PodSecurityExemptions
}

// Load reads a PodSecurityConfiguration, YAML or JSON. Without a document, the defaults are
// privileged, and without exemptions.
func Load(document []byte) (Settings, error) {
	loaded, err := load.LoadFromData(document)
	if err != nil {
		return Settings{}, fmt.Errorf("reading the configuration: %w", err)
	}
	if errs := validation.ValidatePodSecurityConfiguration(loaded); len(errs) > 0 {
		return Settings{}, fmt.Errorf("the configuration is invalid: %w", errs.ToAggregate())
	}
	defaults, err := admissionapi.ToPolicy(loaded.Defaults)
	if err != nil {
		return Settings{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return Settings{defaults: defaults, exempt: loaded.Exemptions}, nil
}

func (s Settings) exemptNamespace(name string) bool {
	return name != "" && slices.Contains(s.exempt.Namespaces, name)
}

func (s Settings) exemptUser(name string) bool {
	return name != "" && slices.Contains(s.exempt.Usernames, name)
}

func (s Settings) exemptRuntimeClass(name *string) bool {
	return name != nil && *name != "" && slices.Contains(s.exempt.RuntimeClasses, *name)
}

// warnExempt warns the client that the policy of an exempt namespace has no effect.
func (s Settings) warnExempt(ctx context.Context, namespace *corev1.Namespace, policy api.Policy) {
	if !s.exemptNamespace(namespace.Name) || policy.FullyPrivileged() || policy.Equivalent(&s.defaults) {
		return
	}
	var chosen []string
	for _, mode := range []struct {
		name, level, version string
		standard             api.LevelVersion
	}{
		{"enforce", api.EnforceLevelLabel, api.EnforceVersionLabel, policy.Enforce},
		{"audit", api.AuditLevelLabel, api.AuditVersionLabel, policy.Audit},
		{"warn", api.WarnLevelLabel, api.WarnVersionLabel, policy.Warn},
	} {
		_, level := namespace.Labels[mode.level]
		_, version := namespace.Labels[mode.version]
		if mode.standard.Level != api.LevelPrivileged && (level || version) {
			chosen = append(chosen, mode.name+"="+mode.standard.String())
		}
	}
	admission.Warn(ctx, fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", namespace.Name, strings.Join(chosen, ", ")))
}
