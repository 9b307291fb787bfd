package registry_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// breaker allows the user "breaker" to delete objects that cannot be read.
type breaker struct{}

func (breaker) Authorize(_ context.Context, user authn.User, a authz.Attributes) (authz.Decision, string, error) {
	if user.Name == "breaker" && a.Verb == "unsafe-delete-ignore-read-errors" && a.Resource == "configmaps" && a.Namespace == "default" {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "no rule", nil
}

// TestUnreadableValues checks that an unreadable value hides nothing but itself, that reading it
// reports what is wrong, and how it is removed.
func TestUnreadableValues(t *testing.T) {
	t.Parallel()
	const key = "/registry/configmaps/default/bad"
	etcd := etcdtest.Start(t)
	// One value exists when the feed starts; the other comes later.
	etcd.Put(t, map[string]string{key: "k8s\x00rubbish"})
	w := newWorld(t, func(c *registrytest.Config) { c.Etcd, c.Authorizer = etcd, breaker{} })
	maps := resource[*corev1.ConfigMap](w)
	first := create(w, "default", newConfigMap("a"))
	watching := follow(t, maps, "default", metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	etcd.Put(t, map[string]string{"/registry/configmaps/default/worse": "{"})
	last := create(w, "default", newConfigMap("z"))
	expect(t, watching, "ADDED z")

	for name, opts := range map[string]metav1.ListOptions{
		"now":   {},
		"any":   {ResourceVersion: "0"},
		"exact": {ResourceVersion: last.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
		"paged": {ResourceVersion: last.ResourceVersion, Limit: 10},
	} {
		listing, err := maps.Read(t.Context(), "default", opts)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var names []string
		for _, obj := range listing.Objects() {
			names = append(names, obj.GetName())
		}
		slices.Sort(listing.Unreadable)
		if !slices.Equal(names, []string{"a", "z"}) || !slices.Equal(listing.Unreadable, []string{"default/bad", "default/worse"}) {
			t.Errorf("%s: listed %v beside %v", name, names, listing.Unreadable)
		}
	}
	for _, version := range []string{"", "0", last.ResourceVersion} {
		_, err := maps.GetAt(t.Context(), "default", "bad", version)
		if got := told(err); !strings.HasPrefix(got, "500 InternalError: ") || !strings.Contains(got, key) {
			t.Errorf("getting it at %q: %s", version, got)
		}
	}

	yes := true
	ignoring := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}
	dry := ignoring
	dry.DryRun = []string{metav1.DryRunAll}
	as := authn.WithUser(t.Context(), authn.User{Name: "breaker"})
	for _, c := range []struct {
		what, name string
		ctx        context.Context
		opts       metav1.DeleteOptions
		want       string
	}{
		{"without the option", "bad", as, metav1.DeleteOptions{}, "500 InternalError: "},
		{"another user", "bad", t.Context(), ignoring, `403 Forbidden: configmaps "bad" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: no rule`},
		{"a readable object", "a", as, ignoring, `409 Conflict: Operation cannot be fulfilled on configmaps "a": unsafe deletion is not allowed because the object is decodable from storage`},
		{"a missing object", "none", as, ignoring, `404 NotFound: configmaps "none" not found`},
		{"a dry run", "bad", as, dry, ""},
		{"a permitted deletion", "bad", as, ignoring, ""},
		{"again", "bad", as, ignoring, `404 NotFound: configmaps "bad" not found`},
	} {
		_, gone, err := maps.Delete(c.ctx, "default", c.name, c.opts)
		if c.want == "" {
			if err != nil || !gone {
				t.Errorf("%s: %t, %v", c.what, gone, err)
			}
			continue
		}
		if got := told(err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.what, got, c.want)
		}
	}
	if _, err := maps.DeleteCollection(t.Context(), "default", ignoring, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "is not allowed with DELETECOLLECTION") {
		t.Errorf("deleting all: %v", err)
	}
	listing, err := maps.Read(t.Context(), "default", metav1.ListOptions{})
	if err != nil || !slices.Equal(listing.Unreadable, []string{"default/worse"}) {
		t.Errorf("afterwards %+v, %v", listing, err)
	}
}
