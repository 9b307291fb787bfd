// Package plugins lists Kubernetes' built-in admission plugins in Kubernetes' order, and puts the
// enabled ones together. The quota of a namespace is charged last, when nothing else can refuse the
// write.
package plugins

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/alwaysadmit"
	"github.com/garboard/garboard/services/apiserver/internal/admission/alwaysdeny"
	"github.com/garboard/garboard/services/apiserver/internal/admission/alwayspullimages"
	"github.com/garboard/garboard/services/apiserver/internal/admission/antiaffinity"
	"github.com/garboard/garboard/services/apiserver/internal/admission/certificates"
	"github.com/garboard/garboard/services/apiserver/internal/admission/defaultingressclass"
	"github.com/garboard/garboard/services/apiserver/internal/admission/denyserviceexternalips"
	"github.com/garboard/garboard/services/apiserver/internal/admission/eventratelimit"
	"github.com/garboard/garboard/services/apiserver/internal/admission/extendedresourcetoleration"
	"github.com/garboard/garboard/services/apiserver/internal/admission/imagepolicy"
	"github.com/garboard/garboard/services/apiserver/internal/admission/limits"
	"github.com/garboard/garboard/services/apiserver/internal/admission/namespaceautoprovision"
	"github.com/garboard/garboard/services/apiserver/internal/admission/namespaceexists"
	"github.com/garboard/garboard/services/apiserver/internal/admission/namespacelifecycle"
	"github.com/garboard/garboard/services/apiserver/internal/admission/nodedeclaredfeatures"
	"github.com/garboard/garboard/services/apiserver/internal/admission/noderestriction"
	"github.com/garboard/garboard/services/apiserver/internal/admission/ownerreferences"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podgroupprotection"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podnodeselector"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podresize"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podsecurity"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podtolerationrestriction"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podtopologylabels"
	"github.com/garboard/garboard/services/apiserver/internal/admission/policies"
	"github.com/garboard/garboard/services/apiserver/internal/admission/priority"
	"github.com/garboard/garboard/services/apiserver/internal/admission/quota"
	"github.com/garboard/garboard/services/apiserver/internal/admission/runtimeclass"
	"github.com/garboard/garboard/services/apiserver/internal/admission/serviceaccount"
	"github.com/garboard/garboard/services/apiserver/internal/admission/storageclass"
	"github.com/garboard/garboard/services/apiserver/internal/admission/storageprotection"
	"github.com/garboard/garboard/services/apiserver/internal/admission/taints"
	"github.com/garboard/garboard/services/apiserver/internal/admission/webhooks"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

// Config configures the plugins. Table and Lookup are required.
type Config struct {
	// Table is the set of served kinds.
	Table *scheme.Table
	// Lookup reads other objects.
	Lookup admission.Lookup
	// Logger receives failed calls of webhooks; slog.Default if nil. Registerer registers the plugins'
	// metrics; nil for none.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Authorizer answers the plugins that check the user's rights. Without it, those that need it
	// are left out.
	Authorizer authz.Authorizer
	// Definitions complete and convert objects, and merge into them, for policies and webhooks; required
	// unless these are disabled.
	Definitions policies.Definitions
	// Extra are plugins that Kubernetes doesn't have. They run just before ResourceQuota, and
	// always.
	Extra []admission.Plugin
	// Enable and Disable name plugins to run, or not to run, against the default.
	Enable, Disable []string
	// Dial connects to webhooks; a net.Dialer's if nil.
	Dial webhook.Dial
	// Identity names the apiserver in metrics.
	Identity string
	// Configurations are the documents of plugins, by name; see the function Configurations.
	Configurations map[string][]byte
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
	// configured marks a plugin that reads its document in Config.Configurations.
	configured
)

// list returns all plugins in Kubernetes' order.
func list() []entry {
	return []entry{
		{name: "AlwaysAdmit", plugin: alone(alwaysadmit.Plugin), flags: off},
		{name: "NamespaceAutoProvision", plugin: reading(namespaceautoprovision.Plugin), flags: off},
		{name: "NamespaceLifecycle", plugin: reading(namespacelifecycle.Plugin)},
		{name: "NamespaceExists", plugin: reading(namespaceexists.Plugin), flags: off},
		{name: "LimitPodHardAntiAffinityTopology", plugin: alone(antiaffinity.Plugin), flags: off},
		{name: "LimitRanger", plugin: reading(limits.Plugin)},
		{name: "ServiceAccount", plugin: reading(serviceaccount.Plugin)},
		{name: "NodeRestriction", plugin: nodeRestriction},
		{name: "TaintNodesByCondition", plugin: alone(taints.NodesByCondition)},
		{name: "AlwaysPullImages", plugin: alone(alwayspullimages.Plugin), flags: off},
		{name: "ImagePolicyWebhook", plugin: imagePolicy, flags: off | configured},
		{name: "PodSecurity", plugin: podSecurity, flags: configured},
		{name: "PodNodeSelector", plugin: podNodeSelector, flags: off | configured},
		{name: "Priority", plugin: reading(priority.Plugin)},
		{name: "DefaultTolerationSeconds", plugin: alone(taints.DefaultTolerationSeconds)},
		{name: "PodTolerationRestriction", plugin: podTolerationRestriction, flags: off | configured},
		{name: "EventRateLimit", plugin: eventRateLimit, flags: off | configured},
		{name: "ExtendedResourceToleration", plugin: alone(extendedresourcetoleration.Plugin), flags: off},
		{name: "DefaultStorageClass", plugin: reading(storageclass.Default)},
		{name: "StorageObjectInUseProtection", plugin: alone(storageprotection.Plugin)},
		{name: "PodGroupProtection", plugin: alone(podGroupProtection)},
		{name: "OwnerReferencesPermissionEnforcement", plugin: ownerReferences, flags: off | asks},
		{name: "PersistentVolumeClaimResize", plugin: reading(storageclass.ClaimResize)},
		{name: "RuntimeClass", plugin: reading(runtimeclass.Plugin)},
		{name: "CertificateApproval", plugin: asking(certificates.Approval), flags: asks},
		{name: "CertificateSigning", plugin: asking(certificates.Signing), flags: asks},
		{name: "ClusterTrustBundleAttest", plugin: asking(certificates.Attest), flags: asks},
		{name: "CertificateSubjectRestriction", plugin: alone(certificates.SubjectRestriction)},
		{name: "DefaultIngressClass", plugin: reading(defaultingressclass.Plugin)},
		{name: "DenyServiceExternalIPs", plugin: alone(denyserviceexternalips.Plugin), flags: off},
		{name: "PodTopologyLabels", plugin: reading(podtopologylabels.Plugin)},
		{name: "NodeDeclaredFeatureValidator", plugin: nodeDeclaredFeatures},
		{name: "PodResizeValidator", plugin: reading(podresize.Plugin)},
		{name: mutatingPolicy, plugin: mutatingPolicies, flags: configured},
		{name: mutatingWebhook, plugin: mutatingWebhooks, flags: configured},
		{name: validatingPolicy, plugin: validatingPolicies, flags: configured},
		{name: validatingWebhook, plugin: validatingWebhooks, flags: configured},
		// Config.Extra run here.
		{name: resourceQuota, plugin: resourceQuotas, flags: configured},
		{name: "AlwaysDeny", plugin: alone(alwaysdeny.Plugin), flags: off},
	}
}

// Listed is one of Kubernetes' plugins.
type Listed struct {
	// Name is Kubernetes' name.
	Name string
	// Default reports whether the plugin runs unless it is disabled.
	Default bool
}

// List returns Kubernetes' plugins in the order in which they run.
func List() []Listed {
	var listed []Listed
	for _, e := range list() {
		listed = append(listed, Listed{Name: e.name, Default: e.flags&off == 0})
	}
	return listed
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

func podSecurity(c Config) (admission.Plugin, error) {
	return podsecurity.Plugin(c.objects(), c.Configurations["PodSecurity"])
}

func eventRateLimit(c Config) (admission.Plugin, error) {
	return eventratelimit.Plugin(c.Configurations["EventRateLimit"])
}

func imagePolicy(c Config) (admission.Plugin, error) {
	return imagepolicy.Plugin(c.Configurations["ImagePolicyWebhook"], c.Logger)
}

func podNodeSelector(c Config) (admission.Plugin, error) {
	return podnodeselector.Plugin(c.objects(), c.Configurations["PodNodeSelector"])
}

func podTolerationRestriction(c Config) (admission.Plugin, error) {
	return podtolerationrestriction.Plugin(c.objects(), c.Configurations["PodTolerationRestriction"])
}

func nodeDeclaredFeatures(c Config) (admission.Plugin, error) {
	return nodedeclaredfeatures.Plugin(c.objects(), version.MajorMinor(1, 37)), nil
}

// podGroupProtection is without its gate: the kind PodGroup is not served.
func podGroupProtection() admission.Plugin { return podgroupprotection.Plugin(false) }

func resourceQuotas(c Config) (admission.Plugin, error) {
	return quota.Plugin(c.objects(), c.Configurations[resourceQuota])
}

const mutatingPolicy, validatingPolicy = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"

func (c Config) policies(name string) policies.Config {
	return policies.Config{
		Objects: c.objects(), Definitions: c.Definitions, Authorizer: c.Authorizer, Document: c.Configurations[name],
		Identity: c.Identity, Logger: c.Logger, Registerer: c.Registerer,
	}
}

func validatingPolicies(c Config) (admission.Plugin, error) {
	return policies.Validating(c.policies(validatingPolicy))
}

func mutatingPolicies(c Config) (admission.Plugin, error) {
	return policies.Mutating(c.policies(mutatingPolicy))
}

func ownerReferences(c Config) (admission.Plugin, error) {
	return ownerreferences.Plugin(c.Table, c.Authorizer), nil
}

const mutatingWebhook, validatingWebhook = "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"

func mutatingWebhooks(c Config) (admission.Plugin, error) {
	return webhooks.Mutating(c.webhooks(mutatingWebhook))
}

func validatingWebhooks(c Config) (admission.Plugin, error) {
	return webhooks.Validating(c.webhooks(validatingWebhook))
}

func (c Config) webhooks(name string) webhooks.Config {
	return webhooks.Config{
		Objects: c.objects(), Kinds: c.Definitions, Authorizer: c.Authorizer, Document: c.Configurations[name],
		Identity: c.Identity, Logger: c.Logger, Registerer: c.Registerer, Dial: c.Dial,
	}
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
	names := map[string]bool{}
	for _, e := range list() {
		names[e.name] = true
	}
	for _, p := range cfg.Extra {
		if names[p.Name] {
			return nil, fmt.Errorf("building the admission chain: there are two plugins named %q", p.Name)
		}
		names[p.Name] = true
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
	return c.selects(e) && (e.flags&asks == 0 || c.Authorizer != nil)
}

// selects reports whether a plugin is enabled.
func (c Config) selects(e entry) bool {
	if slices.Contains(c.Enable, e.name) {
		return true
	}
	return e.flags&off == 0 && !slices.Contains(c.Disable, e.name)
}

// CheckNames returns what is wrong with the plugins to enable and to disable: each must be a known
// plugin, and none may be in both lists.
func CheckNames(enable, disable []string) error {
	var errs []error
	check := func(flag string, names []string) {
		for _, name := range names {
			if err := known(name); err != nil {
				errs = append(errs, fmt.Errorf("%s plugin %q %w", flag, name, err))
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

// known returns an error for a name that no plugin has. The error continues a sentence that names the
// plugin.
func known(name string) error {
	for _, e := range list() {
		if e.name == name {
			return nil
		}
	}
	return fmt.Errorf("is unknown; the plugins are %s", strings.Join(Names(), ", "))
}
