package busauth_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
)

// FuzzSubjects grants a user the objects of one namespace, one object in it, and one cluster-scoped
// object. Whatever the names, the user must receive messages of these and of no others, and no
// subject may have another meaning for NATS.
func FuzzSubjects(f *testing.F) {
	for _, text := range []string{"n", "*", ">", "n.*", "a.b", "~", "~progress", "~2a", " ", "\x00", "\r\n", "\x7f", "ü", "名", "core", "~h", strings.Repeat("x", 256), "\xff"} {
		f.Add(text, "x", "n", text)
		f.Add("n", text, text, "x")
		f.Add(text, text, "*", ">")
	}
	users, err := tokens(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, namespace, name, otherNamespace, otherName string) {
		if namespace == "" || name == "" || otherNamespace == "" || otherName == "" {
			return // No such object exists. In a role, the name "" stands for all.
		}
		u := rbacv1.Subject{Kind: "User", Name: "u"}
		one := func(resource string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{name}}
		}
		p := newPlane()
		p.role(namespace, "r", rule("list,watch", "configmaps"), one("secrets"))
		p.bind(namespace, "b", "Role", "r", u)
		p.clusterRole("r", one("nodes"))
		p.clusterBind("b", "r", u)
		subjects, err := watched(t.Context(), p.decider(users, 0), "u")
		if err != nil {
			t.Fatal(err)
		}
		for _, subject := range subjects {
			checkSubject(t, subject, true)
		}
		for _, resource := range []string{"configmaps", "secrets", "nodes", "pods", "services"} {
			spaces := []string{namespace, otherNamespace}
			if resource == "nodes" {
				spaces = []string{""}
			}
			for _, in := range spaces {
				for _, called := range []string{name, otherName} {
					want := in == namespace && (resource == "configmaps" || resource == "secrets" && called == name) || resource == "nodes" && called == name
					for _, scope := range []string{"", otherName} {
						at := subject.Watch("", resource, scope, in, called)
						checkSubject(t, at, false)
						if got := slices.ContainsFunc(subjects, func(pattern string) bool { return matches(pattern, at) }); got != want {
							t.Errorf("%s %q/%q at %q is heard: %v; want %v; granted %q", resource, in, called, at, got, want, subjects)
						}
					}
				}
			}
		}
	})
}

// checkSubject checks that NATS reads a subject as intended: with wildcards only where allowed, as
// whole tokens.
func checkSubject(t *testing.T, subject string, pattern bool) {
	t.Helper()
	all := strings.Split(subject, ".")
	for i, token := range all {
		wild := pattern && (token == "*" || token == ">" && i == len(all)-1)
		if token == "" || !wild && strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '*' || c == '>' }) {
			t.Errorf("%q is not a valid NATS subject", subject)
		}
	}
}

// TestLeftOutNamesAreCounted checks that a user that may read more single objects than are looked at
// is granted some of them, and that the metrics count this.
func TestLeftOutNamesAreCounted(t *testing.T) {
	users, err := tokens(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for names, want := range map[string]float64{"x": 0, "x,y,z": 1} {
		p := newPlane()
		p.role("n", "r", rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ResourceNames: strings.Split(names, ",")})
		p.bind("n", "b", "Role", "r", rbacv1.Subject{Kind: "User", Name: "u"})
		metrics := prometheus.NewRegistry()
		d := busauth.New(busauth.Config{
			Authenticator: users, Authorizer: p.Authorizer, Roles: p.Authorizer, Table: scheme.New(), Logger: slog.New(slog.DiscardHandler), Registerer: metrics,
		})
		subjects, err := watched(t.Context(), d, "u")
		if err != nil || len(subjects) == 0 {
			t.Errorf("%q, %v", subjects, err)
		}
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := 0.0
		for _, family := range families {
			for _, one := range family.GetMetric() {
				if one.GetLabel()[0].GetValue() == "names" {
					got += one.GetCounter().GetValue()
				}
			}
		}
		if got != want {
			t.Errorf("names %s: told %v times, want %v", names, got, want)
		}
	}
}
