package discovery

import (
	"encoding/json"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"

	"github.com/garboard/garboard/libs/scheme"
)

// TestGroupsAreKept: groups whose kinds are the same are not described again, and the document that is joined of
// them has them all.
func TestGroupsAreKept(t *testing.T) {
	kinds, none := scheme.New().Kinds(), &Others{}
	equal := func(*scheme.Kind) Priority { return Priority{} }
	first := describe(kinds, none, equal, &documents{})
	second := describe(kinds[:len(kinds)-1], none, equal, first)
	changed := kinds[len(kinds)-1].Group
	for name, one := range second.groups {
		if kept := first.groups[name] == one; kept == (name == changed) {
			t.Errorf("group %q: kept is %t", name, kept)
		}
	}
	found, err := first.together["/apis"]()
	if err != nil {
		t.Fatal(err)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(found.data, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != len(first.groups)-1 { // The core group is at /api.
		t.Errorf("%d groups are told of, want %d", len(list.Items), len(first.groups)-1)
	}
}
