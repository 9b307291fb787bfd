package kinds_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// right is one verb on a kind or a subresource.
type right struct{ sub, verb string }

// TestEveryKindHasItsRights grants each right on each kind and subresource to a user who has no
// other, and has each user try everything: all but that one right is refused, in Kubernetes' words.
func TestEveryKindHasItsRights(t *testing.T) {
	forEvery(t, func(e *every) {
		var rights []right
		for _, sub := range e.paths() {
			for _, verb := range verbs() {
				if _, _, _, ok := e.verb(sub, verb); ok {
					rights = append(rights, right{sub, verb})
				}
			}
		}
		switch {
		case e.kind.Observed:
			rights = []right{{"", "get"}, {"", "list"}}
		case e.kind.Virtual:
			rights = []right{{"", "create"}}
		default:
			e.create(1, nil)
		}
		for _, r := range rights {
			e.grant(r)
		}
		// The right that was granted last becomes known last.
		last := rights[len(rights)-1]
		harness.Await(e.T, "the rights to take effect", func() error {
			if refusal := e.refused(e.user(last), last); refusal != "" {
				return fmt.Errorf("%s is refused: %s", last, refusal)
			}
			return nil
		})
		for _, asked := range rights {
			if e.kind.Virtual && strings.HasPrefix(e.kind.Kind, "Self") {
				continue // Any user may.
			}
			if got, want := e.refused("nobody", asked), e.refusal("nobody", asked); got != want {
				e.Errorf("without any right %v is refused with\n%s\nwant\n%s", asked, got, want)
			}
			for _, has := range rights {
				want := ""
				if has != asked {
					want = e.refusal(e.user(has), asked)
				}
				if got := e.refused(e.user(has), asked); got != want {
					e.Errorf("the user with the right %v requests %v and gets\n%s\nwant\n%s", has, asked, got, want)
				}
			}
		}
	})
}

func (e *every) user(r right) string {
	return strings.Trim(fmt.Sprintf("%s-%s-%s", e.kind.Resource, r.sub, r.verb), "-")
}

// grant grants one right to a user, in the kind's own namespace if it is namespaced.
func (e *every) grant(r right) {
	e.Helper()
	resource := e.kind.Resource
	if r.sub != "" {
		resource += "/" + r.sub
	}
	name := e.user(r) + "." + e.kind.GroupVersion().Group
	rules := []rbacv1.PolicyRule{{APIGroups: []string{e.kind.Group}, Resources: []string{resource}, Verbs: []string{r.verb}}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: e.user(r)}}
	where, role, binding := "/apis/rbac.authorization.k8s.io/v1", "clusterroles", "clusterrolebindings"
	if e.namespace != "" {
		where, role, binding, ref.Kind = where+"/namespaces/"+e.namespace, "roles", "rolebindings", "Role"
	}
	meta := metav1.ObjectMeta{Name: name}
	e.want(http.StatusCreated, e.do(http.MethodPost, where+"/"+role, asJSON, asJSON, e.encode(&rbacv1.Role{ObjectMeta: meta, Rules: rules})))
	e.want(http.StatusCreated, e.do(http.MethodPost, where+"/"+binding, asJSON, asJSON, e.encode(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})))
}

// refused tries a verb as a user and returns the refusal of the authorizer, or "" if the authorizer
// allowed it.
func (e *every) refused(user string, asked right) string {
	e.Helper()
	method, where, contentType, _ := e.verb(asked.sub, asked.verb)
	body := ""
	if method != http.MethodGet && method != http.MethodDelete {
		body = `{}`
	}
	e.impersonated = user
	defer func() { e.impersonated = "" }()
	g := e.do(method, where, contentType, asJSON, body)
	if g.code == http.StatusForbidden && strings.Contains(g.message(), fmt.Sprintf("User %q cannot %s resource", user, asked.verb)) {
		return g.message()
	}
	return ""
}

// refusal returns Kubernetes' message to a user without the right.
func (e *every) refusal(user string, asked right) string {
	name, _ := e.nth(1, nil)
	of, resource, place := e.kind.GroupResource().String(), e.kind.Resource, "at the cluster scope"
	if asked.sub != "" {
		resource += "/" + asked.sub
	}
	named := asked.sub != "" || slices.Contains([]string{"get", "update", "patch", "delete"}, asked.verb)
	if named {
		of = fmt.Sprintf("%s %q", of, name)
	}
	switch {
	case e.namespace != "":
		place = fmt.Sprintf("in the namespace %q", e.namespace)
	case named && e.kind.Kind == "Namespace":
		place = fmt.Sprintf("in the namespace %q", name)
	}
	return fmt.Sprintf("%s is forbidden: User %q cannot %s resource %q in API group %q %s", of, user, asked.verb, resource, e.kind.Group, place)
}
