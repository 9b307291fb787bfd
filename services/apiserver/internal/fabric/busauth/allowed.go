package busauth

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// verbs is the subset of list and watch that rules allow. A subject needs both.
type verbs uint8

const (
	mayList verbs = 1 << iota
	mayWatch
	mayBoth = mayList | mayWatch
)

// kinds are the stored kinds, in the table's order and by resource name.
type kinds struct {
	all []*scheme.Kind
	by  map[string][]*scheme.Kind
}

func kindsOf(served []*scheme.Kind) *kinds {
	k := &kinds{by: map[string][]*scheme.Kind{}}
	for _, kind := range served {
		if kind.Stored() {
			k.all = append(k.all, kind)
			k.by[kind.Resource] = append(k.by[kind.Resource], kind)
		}
	}
	return k
}

// about returns the kinds that a rule's resource names.
func (k *kinds) about(resource string) []*scheme.Kind {
	if resource == rbacv1.ResourceAll {
		return k.all
	}
	return k.by[resource]
}

// allowed is what rules allow to list and to watch. Each rule is looked at once.
type allowed struct {
	kinds *kinds
	// all is by kind; names is by kind and by the names in rules. As in RBAC, a rule for the name
	// "" applies to requests without a name.
	all   map[*scheme.Kind]verbs
	names map[*scheme.Kind]map[string]verbs
	// left is how many more names may be recorded: names are kept, so they have a bound of their
	// own.
	left int
	// cut are the kinds for which a name was left out; rest reports whether that may be any kind.
	cut  map[*scheme.Kind]bool
	rest bool
}

func newAllowed(k *kinds, names int) *allowed {
	return &allowed{kinds: k, all: map[*scheme.Kind]verbs{}, names: map[*scheme.Kind]map[string]verbs{}, left: names, cut: map[*scheme.Kind]bool{}}
}

// misses reports whether some of the names that rules list for a kind were not recorded.
func (a *allowed) misses(kind *scheme.Kind) bool { return a.rest || a.cut[kind] }

// whole returns what is allowed for all objects of a kind.
func (a *allowed) whole(kind *scheme.Kind) verbs { return a.all[kind] | a.names[kind][""] }

// single returns what is allowed for the object with a name.
func (a *allowed) single(kind *scheme.Kind, name string) verbs {
	return a.all[kind] | a.names[kind][name]
}

// listed returns the names of a kind that rules list.
func (a *allowed) listed(kind *scheme.Kind) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.names[kind])), func(name string) bool { return name == "" })
}

// add records what a rule allows, as far as left permits, and returns how many names it looked at.
func (a *allowed) add(rule *rbacv1.PolicyRule) (looked int) {
	var v verbs
	for _, verb := range rule.Verbs {
		switch verb {
		case rbacv1.VerbAll:
			v = mayBoth
		case "list":
			v |= mayList
		case "watch":
			v |= mayWatch
		}
	}
	if v == 0 {
		return 0
	}
	resources := rule.Resources
	if slices.Contains(resources, rbacv1.ResourceAll) {
		resources = []string{rbacv1.ResourceAll}
	}
	anyGroup := slices.Contains(rule.APIGroups, rbacv1.APIGroupAll)
	for _, resource := range resources {
		for _, kind := range a.kinds.about(resource) {
			if looked >= maxLooked {
				a.rest = true
				return looked
			}
			if anyGroup || slices.Contains(rule.APIGroups, kind.Group) {
				looked += a.note(kind, v, rule.ResourceNames[:min(len(rule.ResourceNames), maxLooked)])
				a.rest = a.rest || len(rule.ResourceNames) > maxLooked
			}
		}
	}
	return looked
}

// note records what is allowed for a kind and returns how many names it looked at. It stops at the
// first name for which left is used up.
func (a *allowed) note(kind *scheme.Kind, v verbs, names []string) (looked int) {
	if len(names) == 0 {
		a.all[kind] |= v
		return 0
	}
	noted := a.names[kind]
	if noted == nil {
		noted = map[string]verbs{}
		a.names[kind] = noted
	}
	for i, name := range names {
		if _, ok := noted[name]; !ok {
			if a.left <= 0 {
				a.cut[kind] = true
				return i + 1
			}
			a.left--
		}
		noted[name] |= v
	}
	return len(names)
}

// maxLooked is the number of names of a rule after which the rest is ignored.
const maxLooked = 1 << 12

// perUnit is how many words or names of a rule cost as much as one rule.
const perUnit = 16

// cost returns the cost of reading a rule's words other than its names, in rules.
func cost(rule *rbacv1.PolicyRule) int {
	return 1 + (len(rule.Verbs)+len(rule.APIGroups)+len(rule.Resources))/perUnit
}
