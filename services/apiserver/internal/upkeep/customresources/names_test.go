package customresources

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// named returns a definition that wants names, as "plural singular Kind ListKind short,short", and that has
// those of accepted, in the same form, unless it is empty.
func named(group, wanted, accepted string) *crd {
	names := func(text string) (n apiextensionsv1.CustomResourceDefinitionNames) {
		if words := strings.Fields(text); len(words) > 0 {
			n.Plural, n.Singular, n.Kind, n.ListKind = words[0], words[1], words[2], words[3]
			if len(words) > 4 {
				n.ShortNames = strings.Split(words[4], ",")
			}
		}
		return n
	}
	c := &crd{}
	c.Spec.Group, c.Spec.Names, c.Status.AcceptedNames = group, names(wanted), names(accepted)
	c.Name = c.Spec.Names.Plural + "." + group
	return c
}

// conditions returns the conditions of a definition, as "Type=Status Reason: message".
func conditions(c *crd) string {
	var all []string
	for _, one := range c.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", one.Type, one.Status, one.Reason, one.Message))
	}
	return strings.Join(all, "; ")
}

func accepted(c *crd) string {
	n := c.Status.AcceptedNames
	return strings.TrimSpace(strings.Join([]string{n.Plural, n.Singular, n.Kind, n.ListKind, strings.Join(n.ShortNames, ",")}, " "))
}

// TestAcceptNames checks who has which name, and what the conditions say of it.
func TestAcceptNames(t *testing.T) {
	const (
		free    = "NamesAccepted=True NoConflicts: no conflicts found; Established=False Installing: the initial names have been accepted"
		waiting = "; Established=False NotAccepted: not all names are accepted"
	)
	other := named("example.org", "gadgets gadget Gadget GadgetList gd", "gadgets gadget Gadget GadgetList gd")
	for name, c := range map[string]struct {
		group, wanted, had string
		names, conditions  string
	}{
		"free names":       {"example.org", "rods rod Rod RodList r", "", "rods rod Rod RodList r", free},
		"another group":    {"example.com", "gadgets gadget Gadget GadgetList gd", "", "gadgets gadget Gadget GadgetList gd", free},
		"a taken plural":   {"example.org", "gadgets rod Rod RodList", "", "rod Rod RodList", `NamesAccepted=False PluralConflict: "gadgets" is already in use` + waiting},
		"a taken singular": {"example.org", "rods gadget Rod RodList", "", "rods  Rod RodList", `NamesAccepted=False SingularConflict: "gadget" is already in use` + waiting},
		"taken short names": {"example.org", "rods rod Rod RodList r,gd,gadget", "", "rods rod Rod RodList",
			`NamesAccepted=False ShortNamesConflict: ["gd" is already in use, "gadget" is already in use]` + waiting},
		"a plural that is a short name": {"example.org", "gd rod Rod RodList", "", "rod Rod RodList", `NamesAccepted=False PluralConflict: "gd" is already in use` + waiting},
		"a taken kind":                  {"example.org", "rods rod Gadget RodList", "", "rods rod  RodList", `NamesAccepted=False KindConflict: "Gadget" is already in use` + waiting},
		"a kind that is a list":         {"example.org", "rods rod GadgetList RodList", "", "rods rod  RodList", `NamesAccepted=False KindConflict: "GadgetList" is already in use` + waiting},
		"a taken list":                  {"example.org", "rods rod Rod GadgetList", "", "rods rod Rod", `NamesAccepted=False ListKindConflict: "GadgetList" is already in use` + waiting},
		"the last conflict counts":      {"example.org", "gadgets gadget Gadget GadgetList", "", "", `NamesAccepted=False ListKindConflict: "GadgetList" is already in use` + waiting},
		"a name is kept":                {"example.org", "rods gadget Rod RodList", "rods rod Rod RodList", "rods rod Rod RodList", `NamesAccepted=False SingularConflict: "gadget" is already in use` + waiting},
		"own short names":               {"example.org", "rods rod Rod RodList r,s", "rods rod Rod RodList r", "rods rod Rod RodList r,s", free},
		"a short name is given up":      {"example.org", "rods rod Rod RodList", "rods rod Rod RodList r", "rods rod Rod RodList", free},
		"nothing to do":                 {"example.org", "rods rod Rod RodList", "rods rod Rod RodList", "rods rod Rod RodList", ""},
	} {
		one := named(c.group, c.wanted, c.had)
		changed := acceptNames(one, []*crd{other, one})
		if got := conditions(one); accepted(one) != c.names || got != c.conditions || changed != (c.conditions != "") {
			t.Errorf("%s (changed: %v):\ngot  %q, %s\nwant %q, %s", name, changed, accepted(one), got, c.names, c.conditions)
		}
		if acceptNames(one, []*crd{other, one}) {
			t.Errorf("%s: the second look changes %s", name, conditions(one))
		}
	}
}

// TestEstablishedStays checks that a definition that was once served stays so, whatever its new names.
func TestEstablishedStays(t *testing.T) {
	one := named("example.org", "rods rod Rod RodList", "")
	if acceptNames(one, []*crd{one}); !establish(one) || establish(one) {
		t.Error("a definition is not established once")
	}
	const established = "Established=True InitialNamesAccepted: the initial names have been accepted"
	if got := conditions(one); got != "NamesAccepted=True NoConflicts: no conflicts found; "+established {
		t.Error(got)
	}
	other := named("example.org", "cones cone Cone ConeList", "cones cone Cone ConeList")
	one.Spec.Names.Singular = "cone"
	acceptNames(one, []*crd{one, other})
	if got := conditions(one); got != `NamesAccepted=False SingularConflict: "cone" is already in use; `+established || !installable(one) {
		t.Error(got)
	}
	if acceptNames(one, []*crd{one}); conditions(one) != "NamesAccepted=True NoConflicts: no conflicts found; "+established || accepted(one) != "rods cone Rod RodList" {
		t.Errorf("after the other is gone: %s, %s", accepted(one), conditions(one))
	}
}

// TestOrder checks that the older definition has a name that two want.
func TestOrder(t *testing.T) {
	b, a, old := named("example.org", "b b B BList", ""), named("example.org", "a a A AList", ""), named("example.org", "z z Z ZList", "")
	a.CreationTimestamp.Time = at(2)
	b.CreationTimestamp.Time = at(2)
	old.CreationTimestamp.Time = at(1)
	var got []string
	for _, one := range definitionsOf(objects(b, a, old)) {
		got = append(got, one.Spec.Names.Plural)
	}
	if want := []string{"z", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
