package v1beta1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/garboard/garboard/test/operators/siteoperator/v1"
	"github.com/garboard/garboard/test/operators/siteoperator/v1beta1"
)

// TestRoundTrip checks that a site loses nothing on its way from v1 to v1beta1 and back.
func TestRoundTrip(t *testing.T) {
	for _, spec := range []v1.Spec{
		{Hosts: []string{"a.example.com"}, Tier: v1.Free},
		{Hosts: []string{"a.example.com", "b.example.com"}, Tier: v1.Paid, Replicas: new(int32(3)), Page: "text"},
	} {
		site := &v1.Site{
			ObjectMeta: metav1.ObjectMeta{Name: "site", Labels: map[string]string{"k": "v"}}, Spec: spec,
			Status: v1.Status{ObservedGeneration: 4, Conditions: []metav1.Condition{{Type: v1.ReadyCondition}}},
		}
		old, back := &v1beta1.Site{}, &v1.Site{}
		if err := old.ConvertFrom(site); err != nil {
			t.Fatal(err)
		}
		if err := old.ConvertTo(back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(site, back); diff != "" {
			t.Errorf("the site changes (-before +after):\n%s", diff)
		}
	}
}
