package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const header = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

func policy(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(header + text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRules: each rule matches the right requests. Each policy has one rule of level Request.
func TestRules(t *testing.T) {
	alice := &authn.User{Name: "alice", Groups: []string{"dev", "system:authenticated"}}
	get := authz.Attributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "ns", Name: "p"}
	change := func(a authz.Attributes, change func(*authz.Attributes)) authz.Attributes {
		change(&a)
		return a
	}
	logs := change(get, func(a *authz.Attributes) { a.Subresource = "log" })
	deployment := change(get, func(a *authz.Attributes) { a.Group, a.Resource = "apps", "deployments" })
	node := authz.Attributes{Verb: "get", Version: "v1", Resource: "nodes", Name: "n"}
	health := authz.Attributes{Verb: "get", Path: "/healthz/ping", NonResource: true}
	for rule, c := range map[string]struct{ fits, not []authz.Attributes }{
		"":                                     {fits: []authz.Attributes{get, logs, node, health}},
		"users: [alice]":                       {fits: []authz.Attributes{get}},
		"users: [bob]":                         {not: []authz.Attributes{get}},
		"userGroups: [ops, dev]":               {fits: []authz.Attributes{get}},
		"userGroups: [ops]":                    {not: []authz.Attributes{get}},
		"verbs: [get]":                         {fits: []authz.Attributes{get, health}},
		"verbs: [list, watch]":                 {not: []authz.Attributes{get, health}},
		"namespaces: [ns]":                     {fits: []authz.Attributes{get, deployment}, not: []authz.Attributes{node, health}},
		`namespaces: [""]`:                     {fits: []authz.Attributes{node}, not: []authz.Attributes{get, health}},
		`resources: [{group: ""}]`:             {fits: []authz.Attributes{get, logs, node}, not: []authz.Attributes{deployment, health}},
		`resources: [{group: "*"}]`:            {fits: []authz.Attributes{get, deployment}, not: []authz.Attributes{health}},
		`resources: [{resources: [pods]}]`:     {fits: []authz.Attributes{get}, not: []authz.Attributes{logs, node, deployment}},
		`resources: [{resources: [pods/log]}]`: {fits: []authz.Attributes{logs}, not: []authz.Attributes{get}},
		`resources: [{resources: ["pods/*"]}]`: {fits: []authz.Attributes{get, logs}, not: []authz.Attributes{node}},
		`resources: [{resources: ["*/log"]}]`:  {fits: []authz.Attributes{logs}, not: []authz.Attributes{get}},
		`resources: [{resources: ["*"]}]`:      {fits: []authz.Attributes{get, logs, node}, not: []authz.Attributes{deployment}},
		`resources: [{resources: [pods], resourceNames: [p, q]}]`: {fits: []authz.Attributes{get}},
		`resources: [{resources: [pods], resourceNames: [q]}]`:    {not: []authz.Attributes{get}},
		`nonResourceURLs: ["/healthz*"]`:                          {fits: []authz.Attributes{health}, not: []authz.Attributes{get}},
		`nonResourceURLs: ["*"]`:                                  {fits: []authz.Attributes{health}, not: []authz.Attributes{get}},
		`nonResourceURLs: ["/healthz"]`:                           {not: []authz.Attributes{health}},
	} {
		p := policy(t, "rules:\n- level: Request\n  "+rule+"\n")
		for _, a := range c.fits {
			if got := p.rule(alice, a).level; got != auditv1.LevelRequest {
				t.Errorf("rule %q does not match %+v", rule, a)
			}
		}
		for _, a := range c.not {
			if got := p.rule(alice, a).level; got != auditv1.LevelNone {
				t.Errorf("rule %q matches %+v", rule, a)
			}
		}
		if got := p.rule(nil, get).level; strings.Contains(rule, "user") && got != auditv1.LevelNone {
			t.Errorf("rule %q matches a request without a user", rule)
		}
	}
}

// TestFirstRuleCounts: the first matching rule applies, together with the policy's own settings.
func TestFirstRuleCounts(t *testing.T) {
	p := policy(t, `omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  users: [noise]
- level: Metadata
  omitStages: [ResponseStarted]
  verbs: [get]
- level: RequestResponse
  omitManagedFields: false
`)
	for name, c := range map[string]struct {
		user, verb string
		want       verdict
	}{
		"first rule":  {"noise", "get", verdict{level: auditv1.LevelNone, omitManagedFields: true, omitStages: []auditv1.Stage{"RequestReceived"}}},
		"second rule": {"alice", "get", verdict{level: auditv1.LevelMetadata, omitManagedFields: true, omitStages: []auditv1.Stage{"RequestReceived", "ResponseStarted"}}},
		"third rule":  {"alice", "list", verdict{level: auditv1.LevelRequestResponse, omitStages: []auditv1.Stage{"RequestReceived"}}},
	} {
		got := p.rule(&authn.User{Name: c.user}, authz.Attributes{Verb: c.verb, Resource: "pods"})
		if got.level != c.want.level || got.omitManagedFields != c.want.omitManagedFields || !slices.Equal(got.omitStages, c.want.omitStages) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// TestBadPolicies: the error for a faulty policy names the rule at fault.
func TestBadPolicies(t *testing.T) {
	for text, want := range map[string]string{
		"":     "unknown group version field /, Kind= in policy",
		"a: [": "failed decoding",
		"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n": "unknown group version field audit.k8s.io/v1beta1, Kind=Policy in policy",
		"apiVersion: audit.k8s.io/v1\nkind: Event\nrules: [{level: None}]\n":       "Kind=Event in policy",
		header:                 "loaded illegal policy with 0 rules",
		header + "rules: []\n": "loaded illegal policy with 0 rules",
		header + "rules: [{}]": "rules[0].level: Required value",
		header + "rules: [{level: None}, {level: Everything}]":                    `rules[1].level: Unsupported value: "Everything"`,
		header + "rules: [{level: None}, {level: None, user: [a]}]":               `unknown field "rules[1].user"`,
		header + "rules: [{level: None, level: Metadata}]":                        `key "level" already set`,
		header + "rules: [{level: None, users: a}]":                               "failed decoding",
		header + "rules: [{level: None, omitStages: [Never]}]":                    `rules[0].omitStages[0]: Invalid value: "Never": allowed stages are`,
		header + "omitStages: [Never]\nrules: [{level: None}]":                    `omitStages[0]: Invalid value: "Never"`,
		header + "rules: [{level: None, nonResourceURLs: [healthz]}]":             `rules[0].nonResourceURLs[0]: Invalid value: "healthz": non-resource URL rules must begin with a '/' character`,
		header + "rules: [{level: None, nonResourceURLs: ['/a*b']}]":              `non-resource URL wildcards '*' must be the final character of the rule`,
		header + "rules: [{level: None, nonResourceURLs: [/a], namespaces: [b]}]": "rules cannot apply to both regular resources and non-resource URLs",
		header + "rules: [{level: None, resources: [{group: A/v1}]}]":             `rules[0].resources[0].group: Invalid value: "A/v1"`,
		header + "rules: [{level: None, resources: [{resourceNames: [a]}]}]":      "using resourceNames requires at least one resource",
	} {
		if p, err := ParsePolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v and %v, want the error %q", text, p, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if _, err := LoadPolicy(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte(header), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPolicy(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("an invalid file: %v", err)
	}
}

// FuzzPolicy: a policy that parses assigns one of Kubernetes' levels to every request.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(header+"rules: [{level: Metadata, users: [a], resources: [{group: '', resources: ['*/b']}]}]"), "a", "pods", "b", "/x")
	f.Add([]byte(header+"rules: [{level: None, nonResourceURLs: ['*']}]"), "", "", "", "")
	f.Fuzz(func(t *testing.T, data []byte, user, resource, subresource, path string) {
		p, err := ParsePolicy(data)
		if err != nil {
			return
		}
		for _, a := range []authz.Attributes{{Verb: "get", Resource: resource, Subresource: subresource}, {Verb: "get", Path: path, NonResource: true}} {
			for _, user := range []*authn.User{nil, {Name: user}} {
				if v := p.rule(user, a); !slices.Contains(levels(), v.level) {
					t.Errorf("%q assigns %+v", data, v)
				}
			}
		}
	})
}
