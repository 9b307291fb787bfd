package rest

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParsePath(t *testing.T) {
	table := scheme.New()
	for path, want := range map[string]string{
		"/api/v1/pods":                         "pods GET=list",
		"/api/v1/namespaces":                   "namespaces GET=list POST=create",
		"/api/v1/namespaces/a":                 "namespaces /a GET=get PUT=update PATCH=patch DELETE=delete",
		"/api/v1/namespaces/a/status":          "namespaces /a/status GET=get PUT=update PATCH=patch",
		"/api/v1/namespaces/a/finalize":        "namespaces /a/finalize PUT=update",
		"/api/v1/namespaces/a/pods":            "pods a/ GET=list POST=create DELETE=deletecollection",
		"/api/v1/namespaces/a/pods/":           "pods a/ GET=list POST=create DELETE=deletecollection",
		"/api/v1/namespaces/a/pods/p":          "pods a/p GET=get PUT=update PATCH=patch DELETE=delete",
		"/api/v1/namespaces/a/pods/p/log":      "pods a/p/log GET=get",
		"/api/v1/namespaces/a/pods/p/binding":  "pods a/p/binding POST=create",
		"/api/v1/namespaces/a/pods/p/eviction": "pods a/p/eviction POST=create",
		"/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval":   "certificatesigningrequests /c/approval GET=get PUT=update PATCH=patch",
		"/apis/authentication.k8s.io/v1/tokenreviews":                          "tokenreviews POST=create",
		"/apis/authentication.k8s.io/v1/tokenreviews/t":                        "",
		"/apis/authentication.k8s.io/v1/watch/tokenreviews":                    "tokenreviews",
		"/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews": "localsubjectaccessreviews a/ POST=create",
		"/apis/authorization.k8s.io/v1/localsubjectaccessreviews":              "",
		"/apis/authorization.k8s.io/v1/namespaces/a/subjectaccessreviews":      "",
		"/api/v1/namespaces/a/serviceaccounts/s/token":                         "serviceaccounts a/s/token POST=create",
		"/api/v1/namespaces/a/pods/https:p:443/proxy":                          "pods a/https:p:443/proxy GET=get POST=create PUT=update PATCH=patch DELETE=delete",
		"/api/v1/namespaces/a/services/s/proxy/":                               "services a/s/proxy/ GET=get POST=create PUT=update PATCH=patch DELETE=delete",
		"/api/v1/nodes/n/proxy/a//b/":                                          "nodes /n/proxy/a//b/ GET=get POST=create PUT=update PATCH=patch DELETE=delete",
		"/api/v1/watch/nodes/n/proxy/a":                                        "",
		"/api/v1/nodes//proxy/a":                                               "",
		"/api/v1/nodes/n/status":                                               "nodes /n/status GET=get PUT=update PATCH=patch",
		"/apis/apps/v1/namespaces/a/deployments/d/scale":                       "deployments a/d/scale GET=get PUT=update PATCH=patch",
		"/apis/apps/v1/watch/namespaces/a/deployments":                         "deployments a/ GET=watch",
		"/apis/apps/v1/watch/namespaces/a/deployments/d":                       "deployments a/d GET=watch",
		"/apis/events.k8s.io/v1/namespaces/a/events":                           "events a/ GET=list POST=create DELETE=deletecollection",
		"/api/v1/namespaces/pods/pods/pods":                                    "pods pods/pods GET=get PUT=update PATCH=patch DELETE=delete",
		"/api/v1/namespaces/status/pods":                                       "pods status/ GET=list POST=create DELETE=deletecollection",
		"/":                                                                    "",
		"/api":                                                                 "",
		"/api/v1":                                                              "",
		"/api/v1/":                                                             "",
		"/api/v2/pods":                                                         "",
		"/apis/apps/v1":                                                        "",
		"/apis/apps/v1/pods":                                                   "",
		"/apis//v1/pods":                                                       "",
		"/api/v1/watch":                                                        "",
		"/api/v1/pods/p":                                                       "",
		"/api/v1/namespaces//pods":                                             "",
		"/api/v1/namespaces/a/nodes":                                           "",
		"/api/v1/namespaces/a/pods/p/rocket":                                   "",
		"/api/v1/namespaces/a/pods/p/log/more":                                 "",
		"/api/v1/watch/namespaces/a/pods/p/log":                                "",
		"/api/v1/namespaces/a/deployments":                                     "",
		"/apis/apps/v1/namespaces/a/deployments/d/rocket":                      "",
	} {
		target, ok := ParsePath(table, path)
		got := ""
		if ok {
			parts := []string{target.Kind.Resource}
			if place := strings.TrimSuffix(target.Namespace+"/"+target.Name+"/"+target.Subresource, "/") + target.Path; place != "/" {
				parts = append(parts, place)
			}
			for _, method := range target.Methods() {
				parts = append(parts, method+"="+target.Verb(method, false))
			}
			got = strings.Join(parts, " ")
		}
		if got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", path, got, want)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	table := scheme.New()
	f.Add("/api/v1/namespaces/a/pods/p/log")
	f.Add("/apis/apps/v1/watch/deployments")
	f.Add("/api/v1/nodes/n/proxy/a//b/")
	f.Fuzz(func(t *testing.T, path string) {
		target, ok := ParsePath(table, path)
		if !ok {
			return
		}
		if target.Kind == nil || target.Namespace != "" && !target.Kind.Namespaced || target.Subresource != "" && target.Name == "" ||
			target.Path != "" && (!target.Kind.Subresource(target.Subresource).Proxy || !strings.HasSuffix(path, target.Path)) {
			t.Errorf("%q parses to %+v", path, target)
		}
		if strings.Contains(target.Name+target.Namespace+target.Subresource, "/") {
			t.Errorf("%q parses to parts with a slash: %+v", path, target)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("watch=true&labelSelector=a")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		on := isTrue(values, "watch")
		if on != (values.Has("watch") && !slices.Contains([]string{"0", "false"}, strings.ToLower(values.Get("watch")))) {
			t.Errorf("%q: got %v", query, on)
		}
	})
}

// TestCheckParts: each special subresource of a built-in kind needs a Serve, each Serve needs such a
// subresource or a virtual kind, and custom kinds need nothing.
func TestCheckParts(t *testing.T) {
	table := scheme.New()
	serve := func(*Call) error { return nil }
	all := func() map[Part]Serve {
		parts := map[Part]Serve{}
		for _, kind := range table.Kinds() {
			for _, s := range kind.Subresources {
				if s.Special(kind) && !kind.Custom {
					parts[Part{s.Name, s.Kind}] = serve
				}
			}
		}
		return parts
	}
	core := schema.GroupVersion{Version: "v1"}
	custom := &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}, Custom: true,
		Resource: "gadgets", StoragePrefix: "example.org/gadgets", Subresources: []scheme.Subresource{{Name: "polish", Verbs: []string{"create"}}},
	}
	if err := table.Install(custom); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(parts map[Part]Serve)
		says   string
	}{
		"what is needed":        {change: func(map[Part]Serve) {}},
		"a virtual kind":        {change: func(parts map[Part]Serve) { parts[Part{Kind: core.WithKind("Binding")}] = serve }},
		"a custom kind":         {change: func(parts map[Part]Serve) { parts[Part{"polish", custom.GroupVersionKind}] = serve }},
		"no logs":               {change: func(parts map[Part]Serve) { delete(parts, Part{"log", core.WithKind("Pod")}) }, says: "nothing serves pods/log"},
		"a nil one":             {change: func(parts map[Part]Serve) { parts[Part{"log", core.WithKind("Pod")}] = nil }, says: "nothing serves pods/log"},
		"of no kind":            {change: func(parts map[Part]Serve) { parts[Part{"log", core.WithKind("Node")}] = serve }, says: `no kind has the subresource "log"`},
		"what is served anyway": {change: func(parts map[Part]Serve) { parts[Part{"status", core.WithKind("Pod")}] = serve }, says: `no kind has the subresource "status"`},
		"a stored kind":         {change: func(parts map[Part]Serve) { parts[Part{Kind: core.WithKind("Pod")}] = serve }, says: `no kind has the subresource ""`},
	} {
		parts := all()
		c.change(parts)
		err := checkParts(table.Kinds(), parts)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}
