package kinds_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verbs returns all verbs that a resource may have.
func verbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// TestEveryKindIsDiscovered compares discovery with what is served, for each kind and subresource:
// what discovery names works, and what it does not name is refused.
func TestEveryKindIsDiscovered(t *testing.T) {
	forEvery(t, func(e *every) {
		root := path.Dir(e.collection())
		if e.namespace != "" {
			root = path.Dir(path.Dir(root))
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(e.do(http.MethodGet, root, asJSON, asJSON, "").body, &list); err != nil {
			e.Fatal(err)
		}
		told := map[string]metav1.APIResource{}
		for _, r := range list.APIResources {
			if name, sub, _ := strings.Cut(r.Name, "/"); name == e.kind.Resource {
				told[sub] = r
			}
		}
		self := told[""]
		if self.Kind != e.kind.Kind || self.Namespaced != e.kind.Namespaced || self.SingularName != e.kind.Singular ||
			!slices.Equal(self.ShortNames, e.kind.ShortNames) || !slices.Equal(self.Categories, e.kind.Categories) {
			e.Errorf("discovery describes the resource as %+v", self)
		}
		if diff := cmp.Diff(e.paths(), slices.Sorted(maps.Keys(told))); diff != "" {
			e.Errorf("discovery lists other subresources:\n%s", diff)
		}
		// Only the plain form has the hash.
		if (self.StorageVersionHash != "") == e.kind.Virtual {
			e.Errorf("discovery has the storage version hash %q", self.StorageVersionHash)
		}
		self.StorageVersionHash = ""
		told[""] = self
		if diff := cmp.Diff(e.aggregated(), told); diff != "" {
			e.Errorf("aggregated discovery differs (-aggregated +plain):\n%s", diff)
		}
		if !e.kind.Virtual {
			e.create(1, nil)
		}
		for sub, r := range told {
			for _, verb := range verbs() {
				e.hasVerb(sub, verb, slices.Contains(r.Verbs, verb))
			}
		}
		if g := e.do(http.MethodGet, e.at("sample-1")+"/bogus", asJSON, asJSON, ""); g.code != http.StatusNotFound || !strings.Contains(g.message(), "the server could not find the requested resource") {
			e.Errorf("%s: %d %s", g.what, g.code, g.message())
		}
	})
}

// aggregated returns the kind's entry of aggregated discovery, in the plain form.
func (e *every) aggregated() map[string]metav1.APIResource {
	e.Helper()
	root := "/apis"
	if e.kind.Group == "" {
		root = "/api"
	}
	var all apidiscoveryv2.APIGroupDiscoveryList
	g := e.do(http.MethodGet, root, asJSON, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "")
	if err := json.Unmarshal(g.body, &all); err != nil {
		e.Fatal(err)
	}
	told := map[string]metav1.APIResource{}
	for _, group := range all.Items {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				if group.Name != e.kind.Group || version.Version != e.kind.Version || r.Resource != e.kind.Resource {
					continue
				}
				namespaced := r.Scope == apidiscoveryv2.ScopeNamespace
				told[""] = metav1.APIResource{
					Name: r.Resource, SingularName: r.SingularResource, Namespaced: namespaced, Kind: r.ResponseKind.Kind,
					Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
				}
				for _, s := range r.Subresources {
					sub := metav1.APIResource{Name: r.Resource + "/" + s.Subresource, Namespaced: namespaced, Kind: s.ResponseKind.Kind, Verbs: s.Verbs}
					if s.ResponseKind.Group != e.kind.Group || s.ResponseKind.Version != e.kind.Version {
						sub.Group, sub.Version = s.ResponseKind.Group, s.ResponseKind.Version
					}
					told[s.Subresource] = sub
				}
			}
		}
	}
	return told
}

// verb returns the request of a verb on the first sample, its collection or a subresource; false if
// there is none. The request writes nothing.
func (e *every) verb(sub, verb string) (method, where, contentType string, ok bool) {
	name, _ := e.nth(1, nil)
	one := path.Join(e.at(name), sub)
	if e.kind.Virtual && !e.kind.Observed {
		one = e.at("x")
	}
	collective := sub == ""
	const try = "?dryRun=All"
	switch verb {
	case "get":
		return http.MethodGet, one, asJSON, true
	case "list":
		return http.MethodGet, e.collection(), asJSON, collective
	case "watch":
		// The request cannot be upgraded, so it ends at once.
		return http.MethodGet, e.collection() + "?watch=true&resourceVersion=x", asJSON, collective
	case "create":
		if sub == "" {
			return http.MethodPost, e.collection() + try, asJSON, true
		}
		return http.MethodPost, one + try, asJSON, true
	case "update":
		return http.MethodPut, one + try, asJSON, true
	case "patch":
		return http.MethodPatch, one + try, mergePatch, true
	case "delete":
		return http.MethodDelete, one + try, asJSON, true
	}
	return http.MethodDelete, e.collection() + try, asJSON, collective
}

// hasVerb fails the test unless the verb is served, or refused, as discovery says.
func (e *every) hasVerb(sub, verb string, served bool) {
	e.Helper()
	method, where, contentType, ok := e.verb(sub, verb)
	if !ok {
		return
	}
	body := ""
	if method != http.MethodGet && method != http.MethodDelete {
		body = `{}`
	}
	g := e.do(method, where, contentType, asJSON, body)
	unknown := g.code == http.StatusNotFound && strings.Contains(g.message(), "the server could not find the requested resource")
	switch {
	case served && (g.code == http.StatusMethodNotAllowed || unknown || g.code == http.StatusInternalServerError):
		e.Errorf("discovery lists %s/%s %s, but %s: got %d %s", e.kind.Resource, sub, verb, g.what, g.code, g.message())
	case !served && !unknown && g.code != http.StatusMethodNotAllowed, !served && unknown && !e.kind.Virtual:
		e.Errorf("discovery does not list %s/%s %s, but %s: got %d %s", e.kind.Resource, sub, verb, g.what, g.code, g.message())
	case g.code == http.StatusMethodNotAllowed:
		e.wantMessage(http.StatusMethodNotAllowed, "the server does not allow this method on the requested resource", g)
		// A resource that cannot be watched may still allow GET.
		if verb != "watch" && slices.Contains(strings.Split(g.header.Get("Allow"), ", "), method) {
			e.Errorf("%s is refused, but Allow is %q", g.what, g.header.Get("Allow"))
		}
	}
}
