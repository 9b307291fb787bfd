package busauth_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/bootstraproles"
)

// roles are the rules of users, by namespace; the empty one means everywhere.
type roles map[string]map[string][]rbacv1.PolicyRule

func (r roles) Namespaces(user authn.User) ([]string, error) {
	var all []string
	for namespace := range r[user.Name] {
		if namespace != "" {
			all = append(all, namespace)
		}
	}
	slices.Sort(all)
	return all, nil
}

func (r roles) Granted(user authn.User, namespace string, see func([]rbacv1.PolicyRule) bool) error {
	see(r[user.Name][namespace])
	return nil
}

func (r roles) Versions(rbac.Versions) rbac.Versions { return rbac.Versions{} }

func (r roles) Authorize(_ context.Context, user authn.User, want authz.Attributes) (authz.Decision, string, error) {
	rules := slices.Clone(r[user.Name][""])
	if want.Namespace != "" {
		rules = append(rules, r[user.Name][want.Namespace]...)
	}
	for i := range rules {
		if rbac.Allows(&rules[i], want) {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "", nil
}

// noPods is the pod cache of a node authorizer without any pods.
type noPods struct{}

func (noPods) Cached(string, string) (scheme.Object, bool) { return nil, false }
func (noPods) CachedIn(fabric.View) []scheme.Object        { return nil }

func rule(verbs, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{resource}, Verbs: strings.Split(verbs, ","), ResourceNames: names}
}

// decider returns a decider that knows users by tokens that equal their names.
func decider(t *testing.T, granted roles, life time.Duration) *busauth.Decider {
	t.Helper()
	return deciderBy(t, granted, granted, life)
}

// deciderBy is decider with its own authorizer.
func deciderBy(t *testing.T, granted roles, by authz.Authorizer, life time.Duration) *busauth.Decider {
	t.Helper()
	return deciderOf(t, scheme.New(), granted, by, life)
}

// deciderOf is deciderBy with its own kinds.
func deciderOf(t *testing.T, table *scheme.Table, granted roles, by authz.Authorizer, life time.Duration) *busauth.Decider {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.csv")
	var lines strings.Builder
	for name := range granted {
		group := ""
		if strings.HasPrefix(name, authn.NodePrefix) {
			group = authn.GroupNodes
		}
		if name == "root" {
			group = authn.GroupMasters
		}
		fmt.Fprintf(&lines, "%s,%s,uid,%s\n", name, name, group)
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	file, err := authn.NewTokenFile(path, []string{"api"}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return busauth.New(busauth.Config{
		Authenticator: authn.New(authn.Config{Tokens: []authn.Tokens{file}, Audiences: []string{"api"}}),
		Authorizer:    authz.Union{authz.Masters{}, node.New(node.Config{Pods: noPods{}, Rules: bootstraproles.NodeRules()}), by},
		Roles:         granted, Table: table, Life: life, Logger: quiet,
	})
}

func TestRights(t *testing.T) {
	granted := roles{
		"root": {}, "nobody": {"": {rule("get,list", "pods")}},
		"wide":               {"": {rule("get,list,watch", "pods"), rule("list,watch", "nodes", "n1", "n2")}},
		"local":              {"a": {rule("*", "configmaps")}, "b": {rule("list,watch", "secrets", "s"), rule("watch", "pods")}},
		"system:node:n1":     {},
		"system:node:evil.x": {},
	}
	d := decider(t, granted, 0)
	for name, want := range map[string][]string{
		"nobody": nil,
		"wide":   {"gb.watch.core.pods.>", "gb.watch.core.nodes.~progress", "gb.watch.core.nodes.*.~.n1", "gb.watch.core.nodes.*.~.n2"},
		"local":  {"gb.watch.core.configmaps.~progress", "gb.watch.core.configmaps.*.a.>", "gb.watch.core.secrets.~progress", "gb.watch.core.secrets.*.b.s"},
	} {
		grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: name})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		got := slices.Clone(grant.Subscribe[3:])
		slices.Sort(got)
		if !slices.Equal(got, want) || grant.Subscribe[0] != "_INBOX.me.>" || grant.Subscribe[1] != "gb.reports" || grant.Subscribe[2] != "gb.trace" {
			t.Errorf("%s may subscribe to %v, want %v", name, grant.Subscribe, want)
		}
		for _, subject := range grant.Publish {
			if !strings.Contains(subject, ".me.") && !strings.HasSuffix(subject, ".me") {
				t.Errorf("%s may publish to %s", name, subject)
			}
		}
	}
	root, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "root"})
	if err != nil || !slices.Equal(root.Subscribe[3:], []string{"gb.watch.>"}) {
		t.Errorf("the superuser may subscribe to %v (%v)", root.Subscribe, err)
	}
	own, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "system:node:n1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"gb.watch.core.pods.n1.>", "gb.watch.core.pods.~progress", "gb.watch.core.nodes.*.~.n1", "gb.node.n1.>"} {
		if !slices.Contains(own.Subscribe, subject) {
			t.Errorf("a node may not subscribe to %s: %v", subject, own.Subscribe)
		}
	}
	for _, subject := range own.Subscribe {
		if strings.Contains(subject, "secrets") || strings.Contains(subject, "configmaps") || subject == "gb.watch.core.pods.>" || subject == "gb.watch.core.nodes.>" {
			t.Errorf("a node may subscribe to %s", subject)
		}
	}
	escaped, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "system:node:evil.x"})
	if err != nil || !slices.Contains(escaped.Subscribe, "gb.node.evil~2ex.>") {
		t.Errorf("a node with a dot in its name: %v (%v)", escaped.Subscribe, err)
	}
}

func TestNobodyIsLetInWithoutACredential(t *testing.T) {
	d := decider(t, roles{"jane": {}}, 0)
	for _, shown := range []callout.Credentials{{}, {Token: "somebody"}, {Token: "a.b.c"}, {Name: "jane"}} {
		if grant, err := d.Decide(t.Context(), shown); err == nil {
			t.Errorf("%+v is let in as %s", shown, grant.User)
		}
	}
}

// TestExpiry checks that a connection ends within its life, that of a node's agent within a day, and that the ends of
// clients are spread.
func TestExpiry(t *testing.T) {
	d := decider(t, roles{"jane": {}, "system:node:n1": {}}, 10*time.Minute)
	for user, life := range map[string]time.Duration{"jane": 10 * time.Minute, "system:node:n1": busauth.DefaultNodeLife} {
		ends := map[time.Time]bool{}
		for range 20 {
			before := time.Now()
			grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: user})
			if err != nil {
				t.Fatal(err)
			}
			if after := time.Now(); grant.Expires.After(after.Add(life)) || grant.Expires.Before(before.Add(life*4/5-time.Second)) {
				t.Errorf("the connection of %s ends after %v", user, grant.Expires.Sub(before))
			}
			ends[grant.Expires.Truncate(time.Second)] = true
		}
		if len(ends) < 5 {
			t.Errorf("20 clients reconnect at only %d distinct times", len(ends))
		}
	}
}

func TestAuthorize(t *testing.T) {
	d := decider(t, roles{"local": {"a": {rule("list,watch", "configmaps"), rule("list", "pods")}}, "system:node:n1": {}}, 0)
	asker := func(user authn.User) subject.Client {
		t.Helper()
		text, err := busauth.Identity(authn.Connection{User: user})
		if err != nil {
			t.Fatal(err)
		}
		return subject.Client{Inbox: "me", Identity: text}
	}
	local, n1 := asker(authn.User{Name: "local"}), asker(authn.User{Name: "system:node:n1", Groups: []string{authn.GroupNodes}})
	for _, c := range []struct {
		asker subject.Client
		ask   *watchv1.Ask
		want  string
	}{
		{local, &watchv1.Ask{Resource: "configmaps", Namespace: "a"}, ""},
		{local, &watchv1.Ask{Resource: "configmaps", Namespace: "a", Name: "x"}, ""},
		{local, &watchv1.Ask{Resource: "configmaps"}, `configmaps is forbidden: User "local" cannot list resource "configmaps" in API group "" at the cluster scope`},
		{local, &watchv1.Ask{Resource: "pods", Namespace: "a"}, `pods is forbidden: User "local" cannot watch resource "pods" in API group "" in the namespace "a"`},
		{n1, &watchv1.Ask{Resource: "pods", Scope: "n1"}, ""},
		{n1, &watchv1.Ask{Resource: "pods", Scope: "n2"}, "can only list/watch pods with spec.nodeName field selector"},
		{n1, &watchv1.Ask{Resource: "pods", Scope: "~"}, "can only list/watch pods with spec.nodeName field selector"},
		{n1, &watchv1.Ask{Resource: "secrets", Namespace: "a"}, "No Object name found"},
		{n1, &watchv1.Ask{Resource: "configmaps", Scope: "n1"}, "can only read namespaced object of this type"},
		{subject.Client{Inbox: "me", Identity: subject.NoIdentity}, &watchv1.Ask{Resource: "pods"}, "names no user"},
		{subject.Client{Inbox: "me", Identity: "e30"}, &watchv1.Ask{Resource: "pods"}, "names no user"},
		{local, &watchv1.Ask{Resource: "things"}, "could not find the requested resource"},
	} {
		err := d.Authorize(t.Context(), c.asker, c.ask)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.ask, err, c.want)
		}
	}
}

func TestIdentity(t *testing.T) {
	many := authn.User{Name: "x"}
	for i := range 200 {
		many.Groups = append(many.Groups, fmt.Sprintf("group-%d", i))
	}
	if _, err := busauth.Identity(authn.Connection{User: many}); err == nil {
		t.Error("a user in 200 groups is encoded in a subject")
	}
	user := authn.User{Name: "a.b*>~ ü", UID: "1", Groups: []string{"g 1", "g.2"}}
	text, err := busauth.Identity(authn.Connection{User: user})
	if err != nil || strings.ContainsAny(text, ".*> ~") {
		t.Fatalf("%q, %v", text, err)
	}
	if got, err := busauth.User(text); err != nil || got.Name != user.Name || got.UID != "1" || !slices.Equal(got.Groups, user.Groups) {
		t.Errorf("it reads as %+v (%v)", got, err)
	}
}

func FuzzUser(f *testing.F) {
	f.Add("")
	f.Add("~")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"n":"jane","g":["x"]}`)))
	f.Fuzz(func(t *testing.T, text string) {
		user, err := busauth.User(text)
		if err == nil && user.Name == "" {
			t.Errorf("%q is a user without a name", text)
		}
	})
}
