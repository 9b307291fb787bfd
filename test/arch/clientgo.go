package arch

import (
	"fmt"
	"slices"
	"strings"
)

const clientGo = "k8s.io/client-go/"

// clientGoRooms lists which packages of client-go each folder may import in non-test code; folders
// below it need entries of their own. Tests may import all of client-go: they compare with it, and
// act as its users.
var clientGoRooms = map[string][]string{
	// The client is configured by a rest.Config, which is what a kubeconfig loads into.
	"libs/client":        {"dynamic", "rest", "tools/clientcmd", "tools/clientcmd/api"}, // dynamic for its serializer
	"libs/client/events": {"tools/record", "tools/reference"},
	"libs/pki":           {"tools/clientcmd/api/v1"},
	// The adapter provides client-go programs with their own rest.Config.
	"libs/informer/clientgo": {"rest"},
	// A service's Config takes a rest.Config for the apiserver, which the commands build.
	"cmd/garboard":                       {"rest"},
	"cmd/garboard/internal/doctor":       {"rest"},
	"cmd/garboard/internal/plane":        {"rest"},
	"cmd/garboard/internal/snapshotfile": {"rest"},
	"cmd/internal/flags":                 {"rest"},
	"services/apiserver":                 {"rest"},
	"libs/service":                       {"rest"},
	"services/nodeagent":                 {"rest"},
	// The APIs of metrics have no kinds of the plane's own, and may be served elsewhere.
	"services/controllers/internal/metricsapi": {"rest"},
	"services/nodeagent/internal/join":         {"rest"},
	// Webhooks are called by the client that Kubernetes calls them with, whose errors users see.
	"services/apiserver/internal/http/webhook": {"rest", "tools/clientcmd", "tools/clientcmd/api"},
	// What other API servers are told of users, and what they tell of themselves, has the form of client-go.
	"services/apiserver/internal/http/aggregation": {"discovery", "transport"},
	// Policies name their fields by JSON paths in the form of this package.
	"services/apiserver/internal/kinds/admissionregistration": {"util/jsonpath"},
	// Definitions of custom resources name fields by JSON paths.
	"services/apiserver/internal/kinds/custom": {"util/jsonpath"},
	// Programs that act as users of the plane.
	"bench/apiserver":          {"kubernetes/scheme", "rest"},
	"bench/attackers":          {"rest"},
	"bench/attackers/attacker": {"kubernetes/scheme", "rest"},
	"bench/fabric":             {"kubernetes", "rest"},
	"bench/node":               {"kubernetes", "tools/clientcmd"},
	"bench/plane":              {"rest", "tools/clientcmd", "tools/clientcmd/api"},
	"bench/target":             {"kubernetes/scheme", "rest", "tools/clientcmd"},
	"test/chaos/load":          {"rest"},
	"test/chaos/plane":         {"kubernetes/scheme", "rest", "tools/clientcmd"},
	"test/conformance":         {"tools/clientcmd"},
	"test/e2e/plane":           {"tools/clientcmd", "tools/clientcmd/api"},
	"test/outage":              {"kubernetes", "rest", "tools/clientcmd"},
	"test/outage/followers":    {"informers", "kubernetes", "rest", "tools/cache"},
	"test/outage/load":         {"kubernetes"},
	"test/outage/workload":     {"kubernetes", "tools/cache", "tools/watch"},
	// The harness provides the apiserver's tests with client-go's clients.
	"services/apiserver/internal/test/harness": {"kubernetes", "rest", "tools/clientcmd"},
	"test/operators/siteoperator":              {"kubernetes/scheme"},
	"test/services":                            {"tools/clientcmd", "tools/clientcmd/api"},
	"test/upstream/customresources/fixtures":   {"dynamic", "rest", "tools/clientcmd"}, // replaces what returns these
}

// insteadOf names the replacements for packages of client-go, by path prefix.
var insteadOf = []struct{ packages, why string }{
	{"tools/cache", "libs/informer takes its place"},
	{"util/workqueue", "libs/informer takes its place"},
	{"informers", "libs/informer takes its place"},
	{"listers", "libs/informer takes its place"},
	{"tools/leaderelection", "libs/election takes its place"},
	{"kubernetes", "the generated clientset drags in every kind; libs/client is the client"},
	{"dynamic", "libs/client is the client"},
}

// checkClientGo finds imports of client-go packages that are not allowed in their folder.
func checkClientGo(s source) []Violation {
	if s.test {
		return nil
	}
	var found []Violation
	for _, imported := range s.imports {
		pkg, ok := strings.CutPrefix(imported, clientGo)
		if !ok || slices.Contains(clientGoRooms[s.dir], pkg) {
			continue
		}
		why := "client-go is used through libs/client"
		for _, instead := range insteadOf {
			if below(pkg, instead.packages) {
				why = instead.why
			}
		}
		found = append(found, Violation{s.file, fmt.Sprintf("imports %s, which clientGoRooms does not allow in %s: %s", imported, s.dir, why)})
	}
	return found
}

// staleClientGo returns the entries of clientGoRooms that nothing needs.
func staleClientGo(sources []source) []Violation {
	var found []Violation
	for dir, packages := range clientGoRooms {
		for _, pkg := range packages {
			needed := slices.ContainsFunc(sources, func(s source) bool {
				return s.dir == dir && !s.test && slices.Contains(s.imports, clientGo+pkg)
			})
			if !needed {
				found = append(found, Violation{dir, "may import " + clientGo + pkg + ", which nothing there needs: see clientGoRooms"})
			}
		}
	}
	return found
}
