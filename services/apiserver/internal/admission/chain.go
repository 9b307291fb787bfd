package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission/podsecurity"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Config configures the plugins. Table and Lookup are required.
type Config struct {
	// Table is the set of served kinds.
	Table *scheme.Table
	// Lookup reads other objects.
	Lookup Lookup
	// Authorizer answers the plugins that check the user's rights. Without it, those that need it
	// are left out.
	Authorizer authz.Authorizer
	// Extra are plugins of other packages. They run at their place in Kubernetes' order. Plugins
	// that Kubernetes doesn't have run just before ResourceQuota, and always.
	Extra []Plugin
	// Enable and Disable name plugins to run, or not to run, against the default.
	Enable, Disable []string
}

// PluginNames returns the names that can be enabled and disabled, in the order in which the plugins
// run.
func PluginNames() []string { return order() }

// order returns Kubernetes' order of the plugins that exist here.
func order() []string {
	return []string{
		"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition",
		"AlwaysPullImages", "PodSecurity", "Priority", "DefaultTolerationSeconds", "DefaultStorageClass",
		"OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "RuntimeClass", "CertificateApproval",
		"CertificateSigning", "CertificateSubjectRestriction", "ResourceQuota",
	}
}

// defaultOff returns the plugins that run only if they are enabled, as in Kubernetes.
func defaultOff() []string {
	return []string{"AlwaysPullImages", "OwnerReferencesPermissionEnforcement"}
}

// New returns the chain of the enabled plugins. An unknown name is an error that lists the known
// ones.
func New(cfg Config) (*Chain, error) {
	if cfg.Table == nil || cfg.Lookup == nil {
		return nil, errors.New("building the admission chain: a table and a lookup are required")
	}
	own, err := builtin(cfg)
	if err != nil {
		return nil, err
	}
	if err := CheckNames(cfg.Enable, cfg.Disable); err != nil {
		return nil, fmt.Errorf("building the admission chain: %w", err)
	}
	all := slices.Concat(own, cfg.Extra)
	for i, p := range all {
		if slices.ContainsFunc(all[:i], func(q Plugin) bool { return q.Name == p.Name }) {
			return nil, fmt.Errorf("building the admission chain: there are two plugins named %q", p.Name)
		}
	}
	ranks := order()
	rank := func(p Plugin) int {
		if i := slices.Index(ranks, p.Name); i >= 0 {
			return 2 * i
		}
		return 2*len(ranks) - 3 // Before the last one.
	}
	slices.SortStableFunc(all, func(a, b Plugin) int { return rank(a) - rank(b) })
	off := defaultOff()
	return &Chain{plugins: slices.DeleteFunc(all, func(p Plugin) bool {
		if slices.Contains(cfg.Enable, p.Name) {
			return false
		}
		return slices.Contains(cfg.Disable, p.Name) || slices.Contains(off, p.Name)
	})}, nil
}

// CheckNames returns what is wrong with the plugins to enable and to disable: each must be a known
// plugin, and none may be in both lists.
func CheckNames(enable, disable []string) error {
	known := order()
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

// builtin returns the plugins of this package.
func builtin(cfg Config) ([]Plugin, error) {
	checker, err := podsecurity.New()
	if err != nil {
		return nil, fmt.Errorf("building the admission chain: %w", err)
	}
	plugins := []Plugin{
		{Name: "NamespaceLifecycle", Mutate: namespaceLifecycle(cfg)},
		{Name: "LimitRanger", Mutate: limitDefaults(cfg), Validate: checkLimits(cfg)},
		{Name: "ServiceAccount", Mutate: serviceAccount(cfg), Validate: checkServiceAccount(cfg)},
		{Name: "NodeRestriction", Mutate: nodeRestriction(cfg), Validate: nodeDeletions},
		{Name: "TaintNodesByCondition", Mutate: taintNewNode},
		{Name: "AlwaysPullImages", Mutate: pullImages, Validate: checkPullImages},
		{Name: "PodSecurity", Validate: podSecurity(cfg, checker)},
		{Name: "Priority", Mutate: priority(cfg), Validate: checkPriorityClass(cfg)},
		{Name: "DefaultTolerationSeconds", Mutate: defaultTolerations},
		{Name: "DefaultStorageClass", Mutate: defaultStorageClass(cfg)},
		{Name: "PersistentVolumeClaimResize", Validate: checkClaimSize(cfg)},
		{Name: "RuntimeClass", Mutate: applyRuntimeClass(cfg), Validate: checkRuntimeClass(cfg)},
		{Name: "CertificateSubjectRestriction", Validate: checkSubject},
		{Name: "ResourceQuota", Validate: chargeQuota(cfg, quotaCharger(cfg))},
	}
	if cfg.Authorizer != nil {
		plugins = append(plugins,
			Plugin{Name: "OwnerReferencesPermissionEnforcement", Validate: checkOwners(cfg)},
			Plugin{Name: "CertificateApproval", Validate: checkApproval(cfg)},
			Plugin{Name: "CertificateSigning", Validate: checkSigning(cfg)})
	}
	return plugins, nil
}

// get returns an object of type T from the watch cache, or else from etcd.
func get[T scheme.Object](ctx context.Context, cfg Config, namespace, name string) (T, error) {
	return as[T](cfg.Lookup.Get(ctx, scheme.For[T](cfg.Table), namespace, name))
}

// live returns an object of type T from etcd.
func live[T scheme.Object](ctx context.Context, cfg Config, namespace, name string) (T, error) {
	return as[T](cfg.Lookup.Live(ctx, scheme.For[T](cfg.Table), namespace, name))
}

// list returns the objects of type T in a namespace, from the watch cache.
func list[T scheme.Object](ctx context.Context, cfg Config, namespace string) ([]T, error) {
	return all[T](cfg.Lookup.List(ctx, scheme.For[T](cfg.Table), namespace))
}

// liveList returns the objects of type T in a namespace, as they are in etcd.
func liveList[T scheme.Object](ctx context.Context, cfg Config, namespace string) ([]T, error) {
	return all[T](cfg.Lookup.LiveList(ctx, scheme.For[T](cfg.Table), namespace))
}

func all[T scheme.Object](objs []scheme.Object, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	found := make([]T, 0, len(objs))
	for _, obj := range objs {
		typed, err := as[T](obj, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, typed)
	}
	return found, nil
}

func as[T scheme.Object](obj scheme.Object, err error) (T, error) {
	typed, ok := obj.(T)
	if err == nil && !ok {
		err = fmt.Errorf("looking up a %T: found a %T", typed, obj)
	}
	return typed, err
}
