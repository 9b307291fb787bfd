package escalation_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/escalation"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// holder is a user with rules in namespaces, or everywhere ("").
type holder struct {
	rules      map[string][]rbacv1.PolicyRule
	unresolved error
}

func (h *holder) PolicyRules(_ authn.User, namespace string) ([]rbacv1.PolicyRule, error) {
	rules := append([]rbacv1.PolicyRule{}, h.rules[""]...)
	if namespace != "" {
		rules = append(rules, h.rules[namespace]...)
	}
	return rules, h.unresolved
}

func (h *holder) Authorize(_ context.Context, user authn.User, a authz.Attributes) (authz.Decision, string, error) {
	rules, _ := h.PolicyRules(user, a.Namespace)
	for i := range rules {
		if rbac.Allows(&rules[i], a) {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "", nil
}

func rule(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func path(verb, url string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}}
}

func role(rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", ResourceVersion: "7"}, Rules: rules}
}

func clusterRole(rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "7"}, Rules: rules}
}

func aggregated(rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	role := clusterRole(rules...)
	role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}
	return role
}

func binding(kind, name string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", ResourceVersion: "7"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name},
	}
}

func clusterBinding(name string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "7"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
}

const group = rbacv1.GroupName

// TestEscalation checks which roles and bindings a user may write with given rights, and the words
// of the refusals.
func TestEscalation(t *testing.T) {
	table := scheme.New()
	getPods, all := rule("get", "", "pods"), rule("*", "*", "*")
	const attempt = `user "u" (groups=["g" "h"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	everywhere := func(rules ...rbacv1.PolicyRule) map[string][]rbacv1.PolicyRule {
		return map[string][]rbacv1.PolicyRule{"": rules}
	}
	inNS := func(rules ...rbacv1.PolicyRule) map[string][]rbacv1.PolicyRule {
		return map[string][]rbacv1.PolicyRule{"ns": rules}
	}
	with := func(obj scheme.Object, change func(scheme.Object)) scheme.Object { change(obj); return obj }
	for name, c := range map[string]struct {
		held     map[string][]rbacv1.PolicyRule
		obj, old scheme.Object
		want     string // the refusal; empty if allowed
	}{
		"a held role":               {held: inNS(getPods), obj: role(getPods)},
		"a role held everywhere":    {held: everywhere(getPods), obj: role(getPods)},
		"a role held in parts":      {held: inNS(getPods, rule("list", "", "pods")), obj: role(rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}})},
		"a role without rules":      {obj: role()},
		"a role not held":           {obj: role(getPods), want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"a role held elsewhere":     {held: map[string][]rbacv1.PolicyRule{"other": {getPods}}, obj: role(getPods), want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"a cluster role held in ns": {held: inNS(getPods), obj: clusterRole(getPods), want: `clusterroles.rbac.authorization.k8s.io "c" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"some of many rules are missing": {held: inNS(rule("get", "", "*")), obj: role(getPods, rule("list", "", "secrets", "b", "a"), rule("list", "apps", "x"), rule("watch", "apps", "x"), path("get", "/metrics")),
			want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt +
				`{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["list"]}` + "\n" +
				`{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["list"]}` + "\n" +
				`{APIGroups:["apps"], Resources:["x"], Verbs:["list" "watch"]}` + "\n" +
				`{NonResourceURLs:["/metrics"], Verbs:["get"]}`},
		"all objects, with a named one held":      {held: inNS(rule("get", "", "pods", "a")), obj: role(getPods), want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"a named object, with all held":           {held: inNS(getPods), obj: role(rule("get", "", "pods", "a"))},
		"a subresource, with all held":            {held: inNS(rule("get", "", "*")), obj: role(rule("get", "", "pods/log"))},
		"a subresource, held for each":            {held: inNS(rule("get", "", "*/scale")), obj: role(rule("get", "", "pods/scale"))},
		"another subresource":                     {held: inNS(rule("get", "", "*/scale")), obj: role(rule("get", "", "pods/log")), want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}`},
		"all verbs, held one by one":              {held: inNS(getPods), obj: role(rule("*", "", "pods")), want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["*"]}`},
		"paths below a held one":                  {held: everywhere(path("get", "/a/*")), obj: clusterRole(path("get", "/a/b"), path("get", "/a/b/*"))},
		"a path above a held one":                 {held: everywhere(path("get", "/a/*")), obj: clusterRole(path("get", "/a")), want: `clusterroles.rbac.authorization.k8s.io "c" is forbidden: ` + attempt + `{NonResourceURLs:["/a"], Verbs:["get"]}`},
		"the right to escalate":                   {held: inNS(rule("escalate", group, "roles")), obj: role(all)},
		"the right to escalate by name on create": {held: inNS(rule("escalate", group, "roles", "r")), obj: role(getPods), want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`}, // on create names do not count
		"the right to escalate by name on update": {held: inNS(rule("escalate", group, "roles", "r")), obj: role(getPods), old: role()},
		"the right to escalate in a namespace":    {held: inNS(rule("escalate", group, "clusterroles")), obj: clusterRole(getPods), want: `clusterroles.rbac.authorization.k8s.io "c" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"all rights":                              {held: everywhere(all), obj: role(getPods, rule("escalate", group, "roles"))},
		"paths, with all resources held":          {held: everywhere(rule("get", "*", "*")), obj: clusterRole(path("get", "/x")), want: `clusterroles.rbac.authorization.k8s.io "c" is forbidden: ` + attempt + `{NonResourceURLs:["/x"], Verbs:["get"]}`},
		"an update that adds rules":               {held: inNS(getPods), obj: role(getPods, rule("get", "", "secrets")), old: role(getPods), want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`},
		"an update that removes rules":            {held: inNS(getPods), obj: role(getPods), old: role(all)},
		"an update of labels":                     {obj: with(role(getPods), func(o scheme.Object) { o.SetLabels(map[string]string{"a": "b"}) }), old: role(getPods), want: `roles.rbac.authorization.k8s.io "r" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"an update of finalizers":                 {obj: with(role(all), func(o scheme.Object) { o.SetFinalizers([]string{"a/b"}) }), old: role(all)},
		"an update of owners":                     {obj: with(aggregated(all), func(o scheme.Object) { o.SetOwnerReferences([]metav1.OwnerReference{{Name: "x"}}) }), old: aggregated(all)},
		"aggregation, as an ordinary user":        {held: everywhere(getPods), obj: aggregated(), want: `clusterroles.rbac.authorization.k8s.io "c" is forbidden: must have cluster-admin privileges to use the aggregationRule`},
		"aggregation, without paths":              {held: everywhere(rule("get", "*", "*")), obj: aggregated(), want: `clusterroles.rbac.authorization.k8s.io "c" is forbidden: must have cluster-admin privileges to use the aggregationRule`},
		"the end of aggregation":                  {held: everywhere(getPods), obj: clusterRole(getPods), old: aggregated(getPods), want: `clusterroles.rbac.authorization.k8s.io "c" is forbidden: must have cluster-admin privileges to use the aggregationRule`},
		"aggregation, as its controller":          {held: everywhere(rule("escalate", group, "clusterroles")), obj: aggregated(all), old: aggregated()},
		"aggregation, as cluster-admin":           {held: everywhere(all, path("*", "*")), obj: aggregated(all)},

		"binding a held role":              {held: inNS(getPods), obj: binding("Role", "pods")},
		"binding a held cluster role":      {held: inNS(getPods), obj: binding("ClusterRole", "pods")},
		"binding a role not held":          {obj: binding("Role", "pods"), want: `rolebindings.rbac.authorization.k8s.io "b" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"binding everywhere":               {held: inNS(getPods), obj: clusterBinding("pods"), want: `clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"binding a missing role":           {held: inNS(getPods), obj: binding("Role", "gone"), want: `roles.rbac.authorization.k8s.io "gone" not found`},
		"binding a missing cluster role":   {held: everywhere(getPods), obj: clusterBinding("gone"), want: `clusterroles.rbac.authorization.k8s.io "gone" not found`},
		"the right to bind":                {held: inNS(rule("bind", group, "clusterroles", "pods")), obj: binding("ClusterRole", "pods")},
		"the right to bind a missing role": {held: inNS(rule("bind", group, "roles")), obj: binding("Role", "gone")},
		"the right to bind another":        {held: inNS(rule("bind", group, "clusterroles", "x")), obj: binding("ClusterRole", "pods"), want: `rolebindings.rbac.authorization.k8s.io "b" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"the right to bind in a namespace": {held: inNS(rule("bind", group, "clusterroles")), obj: clusterBinding("pods"), want: `clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"a binding's subjects":             {obj: with(binding("Role", "pods"), func(o scheme.Object) { o.(*rbacv1.RoleBinding).Subjects = []rbacv1.Subject{{Kind: "User", Name: "x"}} }), old: binding("Role", "pods"), want: `rolebindings.rbac.authorization.k8s.io "b" is forbidden: ` + attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		"a binding's finalizers":           {obj: with(binding("Role", "pods"), func(o scheme.Object) { o.SetFinalizers([]string{"a/b"}) }), old: binding("Role", "pods")},
	} {
		t.Run(name, func(t *testing.T) {
			h := &holder{rules: c.held}
			plugin := escalation.Plugin(config(h))
			kind := table.KindOf(c.obj)
			req := &admission.Request{Verb: admission.Create, Kind: kind, Namespace: c.obj.GetNamespace(), Name: c.obj.GetName(), Object: c.obj}
			if c.old != nil {
				req.Verb, req.Old = admission.Update, c.old
			}
			as := func(user authn.User) error { return plugin.Mutate(authn.WithUser(t.Context(), user), req) }
			err := as(authn.User{Name: "u", Groups: []string{"g", "h"}})
			if got := text(err); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if err := as(authn.User{Name: "root", Groups: []string{authn.GroupMasters}}); err != nil {
				t.Errorf("a superuser: got %v", err)
			}
			if err := plugin.Mutate(t.Context(), req); err != nil {
				t.Errorf("the apiserver itself: got %v", err)
			}
		})
	}
}

func config(h *holder) escalation.Config {
	pods := []rbacv1.PolicyRule{rule("get", "", "pods")}
	return escalation.Config{
		Authorizer: h, Holder: h,
		Role: func(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
			if namespace != "ns" || name != "pods" {
				return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
			}
			return &rbacv1.Role{Rules: pods}, nil
		},
		ClusterRole: func(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
			if name != "pods" {
				return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
			}
			return &rbacv1.ClusterRole{Rules: pods}, nil
		},
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestUnresolved: the refusal names roles that are bound to the user but missing.
func TestUnresolved(t *testing.T) {
	h := &holder{unresolved: apierrors.NewNotFound(rbacv1.Resource("clusterrole"), "y")}
	req := &admission.Request{Verb: admission.Create, Kind: scheme.For[*rbacv1.Role](scheme.New()), Namespace: "ns", Name: "r", Object: role(rule("get", "", "pods"))}
	err := escalation.Plugin(config(h)).Mutate(authn.WithUser(t.Context(), authn.User{Name: "u"}), req)
	want := `roles.rbac.authorization.k8s.io "r" is forbidden: user "u" (groups=[]) is attempting to grant RBAC permissions not currently held:` + "\n" +
		`{APIGroups:[""], Resources:["pods"], Verbs:["get"]}; resolution errors: [clusterrole.rbac.authorization.k8s.io "y" not found]`
	if text(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestCatchUp: no write is refused for want of rights that were granted a moment ago.
func TestCatchUp(t *testing.T) {
	h := &holder{}
	cfg := config(h)
	cfg.CatchUp = func(context.Context) error {
		h.rules = map[string][]rbacv1.PolicyRule{"": {rule("get", "", "pods")}}
		return nil
	}
	req := &admission.Request{Verb: admission.Create, Kind: scheme.For[*rbacv1.Role](scheme.New()), Namespace: "ns", Name: "r", Object: role(rule("get", "", "pods"))}
	if err := escalation.Plugin(cfg).Mutate(authn.WithUser(t.Context(), authn.User{Name: "u"}), req); err != nil {
		t.Error(err)
	}
}
