package busauth_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
)

// on returns a rule that allows verbs on resources of groups, and on the objects with names if there are any.
func on(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: strings.Fields(verbs), APIGroups: strings.Split(groups, ","), Resources: strings.Fields(resources), ResourceNames: names,
	}
}

// TestRightsForKindsThatComeLater checks who may subscribe to the messages of kinds that nobody has
// installed yet: only a user whom RBAC allows such a kind whichever it will be, in all namespaces.
func TestRightsForKindsThatComeLater(t *testing.T) {
	later := []schema.GroupResource{
		{Group: "example.com", Resource: "widgets"}, {Group: "example.com", Resource: "gadgets"},
		{Group: "sub.example.com", Resource: "widgets"}, {Group: "apps", Resource: "widgets"},
	}
	var everything []rbacv1.PolicyRule
	for _, kind := range scheme.New().Kinds() {
		everything = append(everything, on("list watch", kind.Group, kind.Resource))
	}
	all := "widgets.example.com gadgets.example.com widgets.sub.example.com widgets.apps"
	for name, c := range map[string]struct {
		rules, local []rbacv1.PolicyRule
		want         string   // of later
		subjects     []string // the whole list, unless nil
	}{
		"everything":              {rules: []rbacv1.PolicyRule{on("*", "*", "*")}, want: all, subjects: []string{"gb.watch.>"}},
		"everything, to read":     {rules: []rbacv1.PolicyRule{on("get list watch", "*", "*")}, want: all, subjects: []string{"gb.watch.>"}},
		"two rules for the verbs": {rules: []rbacv1.PolicyRule{on("list", "*", "*"), on("watch", "*", "*")}, want: all, subjects: []string{"gb.watch.>"}},
		"everything, to list":     {rules: []rbacv1.PolicyRule{on("get list", "*", "*")}, subjects: []string{}},
		"everything with a name":  {rules: []rbacv1.PolicyRule{on("*", "*", "*", "x")}},
		"everything's status":     {rules: []rbacv1.PolicyRule{on("*", "*", "*/status")}, subjects: []string{}},
		"a group": {
			rules: []rbacv1.PolicyRule{on("list watch", "example.com", "*")}, want: "widgets.example.com gadgets.example.com",
			subjects: []string{"gb.watch.example~2ecom.>"},
		},
		"a group to list":           {rules: []rbacv1.PolicyRule{on("list", "example.com", "*")}, subjects: []string{}},
		"everything that is there":  {rules: everything},
		"a group that is installed": {rules: []rbacv1.PolicyRule{on("list watch", "apps", "*")}, want: "widgets.apps", subjects: []string{"gb.watch.apps.>"}},
		"list everything, watch a group": {
			rules: []rbacv1.PolicyRule{on("list", "*", "*"), on("watch", "example.com", "*")}, want: "widgets.example.com gadgets.example.com",
			subjects: []string{"gb.watch.example~2ecom.>"},
		},
		"a kind": {
			rules: []rbacv1.PolicyRule{on("list watch", "example.com,sub.example.com", "widgets widgets/status")}, want: "widgets.example.com widgets.sub.example.com",
			subjects: []string{"gb.watch.example~2ecom.widgets.>", "gb.watch.sub~2eexample~2ecom.widgets.>"},
		},
		"a kind to list":               {rules: []rbacv1.PolicyRule{on("list", "example.com", "widgets")}, subjects: []string{}},
		"a kind with a name":           {rules: []rbacv1.PolicyRule{on("list watch", "example.com", "widgets", "x")}, subjects: []string{}},
		"a kind's status":              {rules: []rbacv1.PolicyRule{on("list watch", "example.com", "widgets/status")}, subjects: []string{}},
		"everything in a namespace":    {local: []rbacv1.PolicyRule{on("*", "*", "*")}},
		"a kind in a namespace":        {local: []rbacv1.PolicyRule{on("*", "example.com", "widgets")}, subjects: []string{}},
		"list it, watch it in a space": {rules: []rbacv1.PolicyRule{on("list", "*", "*")}, local: []rbacv1.PolicyRule{on("watch", "*", "*")}},
		"a group that looks like all":  {rules: []rbacv1.PolicyRule{on("*", ">", "* >"), on("*", "*.*", "widgets")}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decider(t, roles{"u": {"": c.rules, "a": c.local}}, 0)
			grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "u"})
			if err != nil {
				t.Fatal(err)
			}
			granted := grant.Subscribe[3:]
			for _, pattern := range granted {
				checkSubject(t, pattern, true)
			}
			if c.subjects != nil && !slices.Equal(granted, c.subjects) {
				t.Errorf("granted %q, want %q", granted, c.subjects)
			}
			for _, one := range later {
				for _, at := range []string{
					subject.Watch(one.Group, one.Resource, "", "a", "x"), subject.Watch(one.Group, one.Resource, "", "", "x"), subject.Progress(one.Group, one.Resource),
				} {
					want := slices.Contains(strings.Fields(c.want), one.String())
					if got := slices.ContainsFunc(granted, func(pattern string) bool { return matches(pattern, at) }); got != want {
						t.Errorf("%s is heard: %t, want %t; granted %q", at, got, want, granted)
					}
				}
			}
		})
	}
}

// TestNoPatternForNodes: what a node may read depends on more than roles, so it is never granted a pattern.
func TestNoPatternForNodes(t *testing.T) {
	d := decider(t, roles{"system:node:n1": {"": {on("*", "*", "*"), on("*", "example.com", "widgets")}}}, 0)
	grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "system:node:n1"})
	if err != nil || !slices.Contains(grant.Subscribe, "gb.watch.core.pods.>") {
		t.Fatalf("granted %q, %v", grant.Subscribe, err)
	}
	for _, at := range grant.Subscribe {
		if at == "gb.watch.>" || strings.HasPrefix(at, "gb.watch.example") {
			t.Errorf("granted %q", at)
		}
	}
}

// TestManyNamesAheadAreBounded: roles that name very many kinds that are not installed cost no user its
// other rights, and few questions.
func TestManyNamesAheadAreBounded(t *testing.T) {
	var groups, resources []string
	for i := range 300 {
		groups, resources = append(groups, fmt.Sprintf("g%d.example.com", i)), append(resources, fmt.Sprintf("r%d", i))
	}
	d := decider(t, roles{"u": {"": {
		on("*", strings.Join(groups, ","), strings.Join(resources, " ")), on("list watch", "", "pods"),
	}}}, 0)
	grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "u"})
	if err != nil || !slices.Contains(grant.Subscribe, "gb.watch.core.pods.>") {
		t.Fatalf("granted %d subjects, %v", len(grant.Subscribe), err)
	}
	if n := len(grant.Subscribe); n > 600 {
		t.Errorf("granted %d subjects", n)
	}
}

// TestAheadOfAnInstalledKind: a right that was granted ahead is the one that is granted when the kind is there.
func TestAheadOfAnInstalledKind(t *testing.T) {
	kind := &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Custom: true,
		Resource: "widgets", Singular: "widget", Namespaced: true, StoragePrefix: "example.com/widgets",
	}
	granted := roles{"u": {"": {on("list watch", "example.com", "widgets")}}}
	for _, installed := range []bool{false, true} {
		table := scheme.New()
		if installed {
			if err := table.Install(kind); err != nil {
				t.Fatal(err)
			}
		}
		grant, err := deciderOf(t, table, granted, granted, 0).Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "u"})
		if err != nil || !slices.Equal(grant.Subscribe[3:], []string{"gb.watch.example~2ecom.widgets.>"}) {
			t.Errorf("installed %t: granted %q, %v", installed, grant.Subscribe, err)
		}
	}
}
