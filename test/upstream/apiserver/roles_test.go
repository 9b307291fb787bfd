package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	upstreamrbac "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// cached is a watch cache that never changes.
type cached []scheme.Object

func (c cached) CachedSince(view fabric.View, have feed.Version) ([]scheme.Object, feed.Version, bool) {
	now := feed.Version{Start: 1, Head: 1}
	if now == have {
		return nil, have, false
	}
	var found []scheme.Object
	for _, obj := range c {
		if view.Namespace == "" || obj.GetNamespace() == view.Namespace {
			found = append(found, obj)
		}
	}
	return found, now, true
}

// world holds random roles and bindings.
type world struct {
	roles               []*rbacv1.Role
	clusterRoles        []*rbacv1.ClusterRole
	bindings            []*rbacv1.RoleBinding
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
}

func (w *world) ours() *rbac.Authorizer {
	return rbac.New(rbac.Caches{
		Roles: objects(w.roles), RoleBindings: objects(w.bindings), ClusterRoles: objects(w.clusterRoles), ClusterRoleBindings: objects(w.clusterRoleBindings),
	})
}

func (w *world) getter() getter {
	_, static := validation.NewTestRuleResolver(w.roles, w.bindings, w.clusterRoles, w.clusterRoleBindings)
	return getter{static}
}

func (w *world) theirs() *upstreamrbac.RBACAuthorizer {
	get := w.getter()
	return upstreamrbac.New(get, get, get, get)
}

// grantsAlone returns worlds with all roles, and one subject of one binding each.
func (w *world) grantsAlone() []*world {
	var found []*world
	for _, binding := range w.bindings {
		for _, subject := range binding.Subjects {
			alone := binding.DeepCopy()
			alone.Subjects = []rbacv1.Subject{subject}
			found = append(found, &world{roles: w.roles, clusterRoles: w.clusterRoles, bindings: []*rbacv1.RoleBinding{alone}})
		}
	}
	for _, binding := range w.clusterRoleBindings {
		for _, subject := range binding.Subjects {
			alone := binding.DeepCopy()
			alone.Subjects = []rbacv1.Subject{subject}
			found = append(found, &world{roles: w.roles, clusterRoles: w.clusterRoles, clusterRoleBindings: []*rbacv1.ClusterRoleBinding{alone}})
		}
	}
	return found
}

func objects[T scheme.Object](of []T) cached {
	var found cached
	for _, obj := range of {
		found = append(found, obj)
	}
	return found
}

// getter finds roles with the errors of Kubernetes' listers; those of StaticRoles name no role.
type getter struct{ *validation.StaticRoles }

func (g getter) GetRole(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
	role, err := g.StaticRoles.GetRole(ctx, namespace, name)
	if err != nil {
		return nil, apierrors.NewNotFound(rbacv1.Resource("role"), name)
	}
	return role, nil
}

func (g getter) GetClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	role, err := g.StaticRoles.GetClusterRole(ctx, name)
	if err != nil {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), name)
	}
	return role, nil
}

// roles are the random parts of a world and its requests.
type roles struct{ *rand.Rand }

func (r roles) some(from ...string) []string {
	var found []string
	for range r.IntN(3) {
		found = append(found, pick(r.Rand, from))
	}
	return found
}

func (r roles) rules() []rbacv1.PolicyRule {
	var found []rbacv1.PolicyRule
	for range r.IntN(3) {
		rule := rbacv1.PolicyRule{Verbs: r.some("get", "list", "*", "create")}
		if r.IntN(3) == 0 {
			rule.NonResourceURLs = r.some("/healthz", "/healthz/*", "*", "/a*", "/a/*/b", "")
		}
		if r.IntN(5) > 0 {
			rule.APIGroups = r.some("", "apps", "*")
			rule.Resources = r.some("pods", "pods/log", "pods/*", "*/log", "*", "*/*", "*/", "deployments", "")
			rule.ResourceNames = r.some("web", "", "db")
		}
		found = append(found, rule)
	}
	return found
}

func (r roles) subjects() []rbacv1.Subject {
	var found []rbacv1.Subject
	for range r.IntN(3) {
		found = append(found, rbacv1.Subject{
			Kind: pick(r.Rand, []string{"User", "Group", "ServiceAccount", "Node"}), APIGroup: pick(r.Rand, []string{"", rbacv1.GroupName}),
			Name: pick(r.Rand, []string{"jane", "joe", "developers", "sa", "", "system:serviceaccount:a:sa", "system:serviceaccounts", "*"}), Namespace: pick(r.Rand, []string{"", "a", "b"}),
		})
	}
	return found
}

func (r roles) ref() rbacv1.RoleRef {
	return rbacv1.RoleRef{
		APIGroup: rbacv1.GroupName, Kind: pick(r.Rand, []string{"Role", "ClusterRole", "Role", "ClusterRole", "Other"}), Name: fmt.Sprint("r", r.IntN(4)),
	}
}

func (r roles) world() *world {
	w := &world{}
	for i := range 3 {
		w.clusterRoles = append(w.clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", i)}, Rules: r.rules()})
		for _, namespace := range []string{"a", "b"} {
			w.roles = append(w.roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", i), Namespace: namespace}, Rules: r.rules()})
			w.bindings = append(w.bindings, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i), Namespace: namespace}, Subjects: r.subjects(), RoleRef: r.ref(),
			})
		}
		ref := r.ref()
		ref.Kind = "ClusterRole" // Validation allows nothing else.
		w.clusterRoleBindings = append(w.clusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i)}, Subjects: r.subjects(), RoleRef: ref,
		})
	}
	return w
}

func (r roles) user() authn.User {
	return authn.User{
		Name:   pick(r.Rand, []string{"jane", "joe", "system:serviceaccount:a:sa", "system:serviceaccount:b:sa", "system:serviceaccount::sa", ""}),
		Groups: r.some("developers", "system:serviceaccounts", "system:authenticated", "*"),
	}
}

func (r roles) request() authz.Attributes {
	want := authz.Attributes{Verb: pick(r.Rand, []string{"get", "list", "delete", "create"})}
	if r.IntN(4) == 0 {
		want.Path = pick(r.Rand, []string{"/healthz", "/healthz/x", "/a", "/ab", "/a/x/b", "/a/*/b"})
		return want
	}
	want.Group, want.Version = pick(r.Rand, []string{"", "apps"}), "v1"
	want.Resource, want.Subresource = pick(r.Rand, []string{"pods", "deployments"}), pick(r.Rand, []string{"", "", "log", "exec"})
	want.Namespace, want.Name = pick(r.Rand, []string{"", "a", "b", "c"}), pick(r.Rand, []string{"", "web", "db", "other"})
	return want
}

// TestRoles compares decisions by random roles, the rules of a user, and which rights a user lacks.
func TestRoles(t *testing.T) {
	for seed := range uint64(*seeds) * 400 {
		r := roles{rand.New(rand.NewPCG(*first+seed, 2))}
		w := r.world()
		get := w.getter()
		resolver := validation.NewDefaultRuleResolver(get, get, get, get)
		theirs, ours := w.theirs(), w.ours()
		for range 50 {
			who, want := r.user(), r.request()
			them := &user.DefaultInfo{Name: who.Name, Groups: who.Groups}
			asked := authorizer.AttributesRecord{
				User: them, Verb: want.Verb, Namespace: want.Namespace, APIGroup: want.Group, APIVersion: want.Version, Resource: want.Resource,
				Subresource: want.Subresource, Name: want.Name, ResourceRequest: want.IsResource(), Path: want.Path,
			}
			decision, reason, err := theirs.Authorize(t.Context(), asked)
			got, why, gotErr := ours.Authorize(t.Context(), who, want)
			alike := slices.Equal(reasons(reason), reasons(why))
			if !alike && got == authz.Allow {
				// Ours names a grant to the user before one to a group. It must be one that allows by itself.
				alike = slices.ContainsFunc(w.grantsAlone(), func(alone *world) bool {
					decision, reason, _ := alone.theirs().Authorize(t.Context(), asked)
					return decision == authorizer.DecisionAllow && reason == why
				})
			}
			if (decision == authorizer.DecisionAllow) != (got == authz.Allow) || !alike || (err == nil) != (gotErr == nil) {
				t.Errorf("seed %d: %+v wants %+v: got %v %q %v, want %v %q %v", seed, who, want, got, why, gotErr, decision, reason, err)
			}
			wantRules, wantErr := resolver.RulesFor(t.Context(), them, want.Namespace)
			rules, err := ours.PolicyRules(who, want.Namespace)
			if got, want := ruleTexts(rules), ruleTexts(wantRules); !slices.Equal(got, want) || (err == nil) != (wantErr == nil) {
				t.Errorf("seed %d: rules of %+v: got %q %v, want %q %v", seed, who, got, err, want, wantErr)
			}
		}
	}
}

// reasons returns the parts of a reason, whose order depends on the order of the bindings.
func reasons(reason string) []string {
	return slices.Sorted(strings.SplitSeq(strings.Trim(strings.TrimPrefix(reason, "RBAC: "), "[]"), ", "))
}

// ruleTexts returns rules as a sorted set of texts.
func ruleTexts(rules []rbacv1.PolicyRule) []string {
	var texts []string
	for _, rule := range rules {
		texts = append(texts, strings.ReplaceAll(rule.String(), "\n", " "))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
