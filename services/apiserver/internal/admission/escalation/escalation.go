// Package escalation keeps users from granting, to themselves or others, rights that they don't
// have. The writer of a role must hold all rights in it or the right to escalate. The writer of a
// binding must hold all rights in its role or the right to bind it. The checks are part of the API
// and cannot be configured, though they run as an admission plugin.
package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// pluginName is the plugin's name.
const pluginName = "RoleEscalation"

// Holder returns the rules that users have.
type Holder interface {
	// PolicyRules returns the rules of a user in a namespace, or everywhere if that is empty, as
	// far as they could be resolved.
	PolicyRules(user authn.User, namespace string) ([]rbacv1.PolicyRule, error)
}

// Config configures the checks; all fields except CatchUp are required.
type Config struct {
	Authorizer authz.Authorizer
	Holder     Holder
	// Role and ClusterRole read the role of a binding from etcd, since it may have been written a
	// moment ago. Their errors are apierrors.
	Role        func(ctx context.Context, namespace, name string) (*rbacv1.Role, error)
	ClusterRole func(ctx context.Context, name string) (*rbacv1.ClusterRole, error)
	// CatchUp waits, for a short time, until Authorizer and Holder have everything that etcd has;
	// it may be nil. The plugin refuses no write before that.
	CatchUp func(ctx context.Context) error
}

// Plugin returns the plugin, which checks roles and bindings before they are validated, as
// Kubernetes does.
func Plugin(cfg Config) admission.Plugin {
	return admission.Plugin{Name: pluginName, Mutate: func(ctx context.Context, req *admission.Request) error {
		user, ok := authn.UserFrom(ctx)
		if !ok || req.Verb == admission.Delete || req.Kind.Group != rbacv1.GroupName || slices.Contains(user.Groups, authn.GroupMasters) {
			return nil // A write without a user is the apiserver's own.
		}
		c := &check{Config: cfg, user: user, req: req}
		err := c.run(ctx)
		if apierrors.IsForbidden(err) && cfg.CatchUp != nil && cfg.CatchUp(ctx) == nil {
			err = c.run(ctx)
		}
		return err
	}}
}

// check is the check of one write.
type check struct {
	Config
	user authn.User
	req  *admission.Request
}

func (c *check) run(ctx context.Context) error {
	switch obj := c.req.Object.(type) {
	case *rbacv1.Role:
		return c.role(ctx, obj.Rules, false)
	case *rbacv1.ClusterRole:
		return c.role(ctx, obj.Rules, aggregates(c.req.Object) || aggregates(c.req.Old))
	case *rbacv1.RoleBinding:
		return c.binding(ctx, obj.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return c.binding(ctx, obj.RoleRef)
	}
	return nil
}

// role checks a role with the given rules.
func (c *check) role(ctx context.Context, rules []rbacv1.PolicyRule, aggregates bool) error {
	name := c.req.Name
	if c.req.Verb == admission.Create {
		name = "" // As in Kubernetes, a right on some names doesn't include creating them.
	}
	may, err := c.may(ctx, "escalate", c.req.Kind.Resource, name)
	if may || err != nil || onlyBookkeeping(c.req.Object, c.req.Old) {
		return err
	}
	if err := c.holds(rules); err != nil {
		return err
	}
	// An aggregated role may come to hold any rule.
	if aggregates && c.holds(everything()) != nil {
		return c.refuse(errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

// binding checks a binding to a role.
func (c *check) binding(ctx context.Context, ref rbacv1.RoleRef) error {
	if onlyBookkeeping(c.req.Object, c.req.Old) {
		return nil
	}
	resource := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	if resource != "" {
		may, err := c.may(ctx, "bind", resource, ref.Name)
		if may || err != nil {
			return err
		}
	}
	rules, err := c.rulesOf(ctx, ref)
	if err != nil {
		return err
	}
	return c.holds(rules)
}

// may reports whether the user has a right on a role.
func (c *check) may(ctx context.Context, verb, resource, name string) (bool, error) {
	decision, _, err := c.Authorizer.Authorize(ctx, c.user, authz.Attributes{
		Verb: verb, Group: rbacv1.GroupName, Version: "*", Resource: resource, Namespace: c.req.Namespace, Name: name,
	})
	if decision == authz.Allow {
		return true, nil
	}
	if err != nil {
		return false, apierrors.NewInternalError(fmt.Errorf("deciding whether to %s %s: %w", verb, resource, err))
	}
	return false, nil
}

// rulesOf reads the rules of a binding's role. If the role cannot be read, the write is refused,
// since nothing is known about what it would grant.
func (c *check) rulesOf(ctx context.Context, ref rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		role, err := c.Role(ctx, c.req.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	case "ClusterRole":
		role, err := c.ClusterRole(ctx, ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	return nil, apierrors.NewInternalError(fmt.Errorf("unsupported role reference kind: %q", ref.Kind))
}

// holds refuses rules that the user does not hold.
func (c *check) holds(rules []rbacv1.PolicyRule) error {
	held, unresolved := c.Holder.PolicyRules(c.user, c.req.Namespace)
	covered, missing := rbacvalidation.Covers(held, rules)
	if covered {
		return nil
	}
	message := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		c.user.Name, c.user.Groups, strings.Join(describe(missing), "\n"))
	if unresolved != nil {
		message += fmt.Sprintf("; resolution errors: %v", []error{unresolved})
	}
	return c.refuse(errors.New(message))
}

func (c *check) refuse(why error) error {
	return apierrors.NewForbidden(c.req.Kind.GroupResource(), c.req.Object.GetName(), why)
}

// describe formats rights, with one rule for all verbs of one resource.
func describe(rights []rbacv1.PolicyRule) []string {
	var lines []string
	var simple []schema.GroupResource
	verbs := map[schema.GroupResource][]string{}
	for _, right := range rights {
		if len(right.ResourceNames) > 0 || len(right.NonResourceURLs) > 0 {
			lines = append(lines, compact(right))
			continue
		}
		of := schema.GroupResource{Group: right.APIGroups[0], Resource: right.Resources[0]}
		if verbs[of] == nil {
			simple = append(simple, of)
		}
		verbs[of] = append(verbs[of], right.Verbs...)
	}
	for _, of := range simple {
		lines = append(lines, compact(rbacv1.PolicyRule{APIGroups: []string{of.Group}, Resources: []string{of.Resource}, Verbs: verbs[of]}))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// compact formats a rule as Kubernetes does.
func compact(rule rbacv1.PolicyRule) string {
	var parts []string
	for _, part := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", rule.APIGroups}, {"Resources", rule.Resources}, {"NonResourceURLs", rule.NonResourceURLs},
		{"ResourceNames", rule.ResourceNames}, {"Verbs", rule.Verbs},
	} {
		if len(part.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", part.name, part.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// everything returns the rules of cluster-admin.
func everything() []rbacv1.PolicyRule {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
}

// aggregates reports whether a role is aggregated from others; obj may be nil.
func aggregates(obj scheme.Object) bool {
	role, ok := obj.(*rbacv1.ClusterRole)
	return ok && role != nil && role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

// onlyBookkeeping reports whether an update changes only what garbage collection must change:
// owners and finalizers.
func onlyBookkeeping(obj, old scheme.Object) bool {
	if old == nil {
		return false
	}
	changed, ok := obj.DeepCopyObject().(scheme.Object)
	if !ok {
		return false
	}
	changed.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	changed.SetOwnerReferences(old.GetOwnerReferences())
	changed.SetFinalizers(old.GetFinalizers())
	changed.SetManagedFields(old.GetManagedFields())
	if changed.GetResourceVersion() == "" {
		changed.SetResourceVersion(old.GetResourceVersion())
	}
	return apiequality.Semantic.DeepEqual(changed, old)
}
