package impersonation

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rights are what a user may do: "verb group/resource[/subresource] [namespace/]name".
type rights []string

func (r rights) Authorize(_ context.Context, _ authn.User, a authz.Attributes) (authz.Decision, string, error) {
	resource := a.Group + "/" + a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	name := a.Name
	if a.Namespace != "" {
		name = a.Namespace + "/" + name
	}
	if slices.Contains(r, a.Verb+" "+resource+" "+name) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "no such right", nil
}

func headers(lines ...string) http.Header {
	header := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	return header
}

// TestImpersonation checks what the headers ask for, the rights that this takes, and the resulting
// user, with errors in Kubernetes' words.
func TestImpersonation(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		rights  rights
		// user is "name/uid groups..."; the error is failure.
		user, failure string
	}{
		"no headers": {},
		"a user":     {[]string{"Impersonate-User: bob"}, rights{"impersonate /users bob"}, "bob/ system:authenticated", ""},
		"without the right": {[]string{"Impersonate-User: bob"}, nil, "",
			`users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope: no such right`},
		"a user in groups": {[]string{"Impersonate-User: bob", "Impersonate-Group: dev", "Impersonate-Group: ops"},
			rights{"impersonate /users bob", "impersonate /groups dev", "impersonate /groups ops"}, "bob/ dev ops system:authenticated", ""},
		"in a group without the right": {[]string{"Impersonate-User: bob", "Impersonate-Group: dev", "Impersonate-Group: ops"},
			rights{"impersonate /users bob", "impersonate /groups dev"}, "",
			`groups "ops" is forbidden: User "alice" cannot impersonate resource "groups" in API group "" at the cluster scope: no such right`},
		"a UID": {[]string{"Impersonate-User: bob", "Impersonate-Uid: u1"},
			rights{"impersonate /users bob", "impersonate authentication.k8s.io/uids u1"}, "bob/u1 system:authenticated", ""},
		"a UID without the right": {[]string{"Impersonate-User: bob", "Impersonate-Uid: u1"}, rights{"impersonate /users bob"}, "",
			`uids.authentication.k8s.io "u1" is forbidden: User "alice" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope: no such right`},
		"extra values": {[]string{"Impersonate-User: bob", "Impersonate-Extra-Example.com%2fScopes: a", "Impersonate-Extra-Example.com%2fScopes: b"},
			rights{"impersonate /users bob", "impersonate authentication.k8s.io/userextras/example.com/scopes a", "impersonate authentication.k8s.io/userextras/example.com/scopes b"},
			"bob/ system:authenticated example.com/scopes=[a b]", ""},
		"an extra value without the right": {[]string{"Impersonate-User: bob", "Impersonate-Extra-Scopes: a"}, rights{"impersonate /users bob"}, "",
			`userextras.authentication.k8s.io "a" is forbidden: User "alice" cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster scope: no such right`},
		"a malformed extra key": {[]string{"Impersonate-User: bob", "Impersonate-Extra-A%zz: a"},
			rights{"impersonate /users bob", "impersonate authentication.k8s.io/userextras/a%zz a"}, "bob/ system:authenticated a%zz=[a]", ""},
		"a service account": {[]string{"Impersonate-User: system:serviceaccount:ns:robot"},
			rights{"impersonate /serviceaccounts ns/robot"}, "system:serviceaccount:ns:robot/ system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"a service account in other groups": {[]string{"Impersonate-User: system:serviceaccount:ns:robot", "Impersonate-Group: dev"},
			rights{"impersonate /serviceaccounts ns/robot", "impersonate /groups dev"}, "system:serviceaccount:ns:robot/ dev system:authenticated", ""},
		"a service account without the right": {[]string{"Impersonate-User: system:serviceaccount:ns:robot"}, rights{"impersonate /users system:serviceaccount:ns:robot"}, "",
			`serviceaccounts "robot" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns": no such right`},
		"an incomplete service account name": {[]string{"Impersonate-User: system:serviceaccount:ns"},
			rights{"impersonate /users system:serviceaccount:ns"}, "system:serviceaccount:ns/ system:authenticated", ""},
		"the anonymous user": {[]string{"Impersonate-User: system:anonymous"},
			rights{"impersonate /users system:anonymous"}, "system:anonymous/ system:unauthenticated", ""},
		"an unauthenticated user": {[]string{"Impersonate-User: bob", "Impersonate-Group: system:unauthenticated"},
			rights{"impersonate /users bob", "impersonate /groups system:unauthenticated"}, "bob/ system:unauthenticated", ""},
		"an authenticated user": {[]string{"Impersonate-User: bob", "Impersonate-Group: system:authenticated"},
			rights{"impersonate /users bob", "impersonate /groups system:authenticated"}, "bob/ system:authenticated", ""},
		"a group without a user": {[]string{"Impersonate-Group: dev"}, nil, "",
			`requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)} without impersonating a user name`},
		"a UID without a user":          {[]string{"Impersonate-Uid: u1"}, nil, "", "without impersonating a user name"},
		"an extra value without a user": {[]string{"Impersonate-Extra-A: b"}, nil, "", "without impersonating a user name"},

		// The constrained modes need the right to the user, and to what the request does.
		"a user, constrained to listing pods": {[]string{"Impersonate-User: bob"},
			rights{"impersonate:user-info authentication.k8s.io/users bob", "impersonate-on:user-info:list /pods ns/"}, "bob/ system:authenticated impersonate:user-info", ""},
		"a user, constrained to another verb": {[]string{"Impersonate-User: bob"},
			rights{"impersonate:user-info authentication.k8s.io/users bob", "impersonate-on:user-info:get /pods ns/"}, "", `users "bob" is forbidden`},
		"a constrained user in a group": {[]string{"Impersonate-User: bob", "Impersonate-Group: dev"},
			rights{"impersonate:user-info authentication.k8s.io/users bob", "impersonate-on:user-info:list /pods ns/"}, "", `users "bob" is forbidden`},
		"a constrained administrator": {[]string{"Impersonate-User: bob", "Impersonate-Group: system:masters"},
			rights{"impersonate:user-info authentication.k8s.io/users bob", "impersonate:user-info authentication.k8s.io/groups system:masters", "impersonate-on:user-info:list /pods ns/"},
			"", `users "bob" is forbidden`},
		"a constrained service account": {[]string{"Impersonate-User: system:serviceaccount:ns:robot"},
			rights{"impersonate:serviceaccount authentication.k8s.io/serviceaccounts ns/robot", "impersonate-on:serviceaccount:list /pods ns/"},
			"system:serviceaccount:ns:robot/ system:serviceaccounts system:serviceaccounts:ns system:authenticated impersonate:serviceaccount", ""},
		"any node": {[]string{"Impersonate-User: system:node:n2"},
			rights{"impersonate:arbitrary-node authentication.k8s.io/nodes n2", "impersonate-on:arbitrary-node:list /pods ns/"},
			"system:node:n2/ system:nodes system:authenticated impersonate:arbitrary-node", ""},
		"the user's own node": {[]string{"Impersonate-User: system:node:n1"},
			rights{"impersonate:associated-node authentication.k8s.io/nodes *", "impersonate-on:associated-node:list /pods ns/"},
			"system:node:n1/ system:nodes system:authenticated impersonate:associated-node", ""},
		"another node": {[]string{"Impersonate-User: system:node:n2"},
			rights{"impersonate:associated-node authentication.k8s.io/nodes *", "impersonate-on:associated-node:list /pods ns/"}, "", `users "system:node:n2" is forbidden`},
	} {
		t.Run(name, func(t *testing.T) {
			header := headers(append(c.headers, "Accept: x")...)
			user := authn.User{Name: "alice"}
			if strings.Contains(name, "node") || name == "another node" {
				user = authn.User{Name: "system:serviceaccount:ns:agent", Extra: map[string][]string{authn.ExtraNodeName: {"n1"}}}
			}
			acting, ok, err := Resolve(t.Context(), header, user, authz.Attributes{Verb: "list", Resource: "pods", Namespace: "ns"}, c.rights)
			got := ""
			if ok {
				got = strings.Join(append([]string{acting.User.Name + "/" + acting.User.UID}, acting.User.Groups...), " ")
				for key, values := range acting.User.Extra {
					got += fmt.Sprintf(" %s=%v", key, values)
				}
				if acting.Constraint != "" {
					got += " " + acting.Constraint
				}
			}
			switch {
			case got != c.user:
				t.Errorf("got %q, want %q; %v", got, c.user, err)
			case (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure):
				t.Errorf("got %v, want %q", err, c.failure)
			case err != nil && strings.Contains(c.failure, "without impersonating") != apierrors.IsBadRequest(err):
				t.Errorf("%v is the wrong kind of error", err)
			}
			if ok && len(header) != 1 {
				t.Errorf("the impersonation headers remain: %v", header)
			}
		})
	}
}

// FuzzHeaders: whatever the headers hold, no user without rights impersonates another, and accepted
// headers are removed.
func FuzzHeaders(f *testing.F) {
	f.Add("Impersonate-User", "bob", "Impersonate-Extra-a%2fb", "c")
	f.Add("Impersonate-Group", "", "impersonate-uid", "1")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		header := http.Header{}
		header.Add(textproto.CanonicalMIMEHeaderKey(name1), value1)
		header.Add(textproto.CanonicalMIMEHeaderKey(name2), value2)
		asked := header.Get("Impersonate-User") != ""
		if _, ok, err := Resolve(t.Context(), header, authn.User{Name: "alice"}, authz.Attributes{Verb: "get"}, rights{}); ok || asked && err == nil {
			t.Errorf("%q: %q, %q: %q: got %v, %v", name1, value1, name2, value2, ok, err)
		}
		if asked && header.Get("Impersonate-User") != "" {
			t.Errorf("the remaining headers are %v", header)
		}
	})
}
