package authz_test

import (
	"testing"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/authn"
	"github.com/garboard/garboard/services/apiserver/internal/authz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAuthorize(t *testing.T) {
	admin := authn.User{Name: "root", Groups: []string{authn.GroupMasters}}
	scheduler := authn.User{Name: "system:kube-scheduler", Groups: []string{authn.GroupAuthenticated}}
	controllers := authn.User{Name: "system:kube-controller-manager"}
	node := authn.User{Name: "system:node:n1", Groups: []string{authn.GroupNodes}}
	notNode := authn.User{Name: "n1", Groups: []string{authn.GroupNodes}}
	robot := authn.User{Name: "system:serviceaccount:a:b", Groups: []string{authn.GroupServiceAccounts, authn.GroupAuthenticated}}
	anonymous := authn.User{Name: authn.Anonymous, Groups: []string{authn.GroupUnauthenticated}}
	on := func(verb, resource, subresource, namespace string) authz.Attributes {
		return authz.Attributes{Verb: verb, Resource: resource, Subresource: subresource, Namespace: namespace}
	}
	path := func(verb, path string) authz.Attributes { return authz.Attributes{Verb: verb, Path: path} }
	for _, c := range []struct {
		user authn.User
		a    authz.Attributes
		want bool
	}{
		{admin, on("delete", "nodes", "", ""), true},
		{admin, path("get", "/debug/garboard/trace"), true},
		{controllers, on("delete", "pods", "", "a"), true},
		{controllers, path("get", "/debug/garboard/trace"), false},
		{scheduler, on("create", "pods", "binding", "a"), true},
		{scheduler, on("create", "pods", "", "a"), false},
		{scheduler, on("list", "secrets", "", ""), false},
		{scheduler, on("update", "nodes", "", ""), false},
		{node, on("patch", "nodes", "status", ""), true},
		{node, on("delete", "nodes", "", ""), false},
		{node, on("create", "pods", "binding", "a"), false},
		{node, on("update", "leases", "", "kube-node-lease"), true},
		{node, on("update", "leases", "", "kube-system"), false},
		{node, on("create", "serviceaccounts", "token", "a"), true},
		{node, on("update", "deployments", "", "a"), false},
		{notNode, on("list", "pods", "", ""), false},
		{robot, on("get", "pods", "", "a"), false},
		{robot, path("get", "/apis/apps/v1"), true},
		{robot, path("post", "/apis"), false},
		{anonymous, path("get", "/readyz"), true},
		{anonymous, path("get", "/apis"), false},
		{anonymous, path("get", "/metrics"), false},
	} {
		err := authz.Check(t.Context(), authz.Union{authz.Masters{}, authz.Fixed{}}, c.user, c.a)
		if (err == nil) != c.want || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s, %+v: %v, want %v", c.user.Name, c.a, err, c.want)
		}
	}
}
