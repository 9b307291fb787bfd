package clusterroleaggregation

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// role returns a ClusterRole with the given labels, all "true", and one rule for each resource.
func role(name string, labels []string, resources ...string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		r.Labels[label] = "true"
	}
	for _, resource := range resources {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}})
	}
	return r
}

// aggregated makes a role aggregate the roles that have one of the labels.
func aggregated(r *rbacv1.ClusterRole, labels ...string) *rbacv1.ClusterRole {
	r.AggregationRule = &rbacv1.AggregationRule{}
	for _, label := range labels {
		r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors,
			metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}})
	}
	return r
}

func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("escalate get list watch update patch rbac.authorization.k8s.io/clusterroles")
	p.Declare(New)
	p.Start()
	return p
}

// settle lets everything happen that happens within a second.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// expect checks the resources of a role's rules, in order.
func expect(t *testing.T, p *controltest.Plane, name string, want ...string) {
	t.Helper()
	settle()
	var got []string
	for _, rule := range controltest.Get[*rbacv1.ClusterRole](p, "", name).Rules {
		got = append(got, rule.Resources...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s has the rules of %q, want %q", name, got, want)
	}
}

func TestAggregation(t *testing.T) {
	for name, test := range map[string]struct {
		roles []*rbacv1.ClusterRole
		want  []string
	}{
		"nothing selected":       {[]*rbacv1.ClusterRole{role("a", nil, "pods")}, nil},
		"in the order of names":  {[]*rbacv1.ClusterRole{role("b", []string{"x"}, "pods"), role("a", []string{"x"}, "secrets", "events")}, []string{"secrets", "events", "pods"}},
		"selectors in order":     {[]*rbacv1.ClusterRole{role("a", []string{"y"}, "pods"), role("b", []string{"x"}, "secrets")}, []string{"secrets", "pods"}},
		"equal rules once":       {[]*rbacv1.ClusterRole{role("a", []string{"x"}, "pods", "pods"), role("b", []string{"x"}, "nodes", "pods")}, []string{"pods", "nodes"}},
		"selected by both":       {[]*rbacv1.ClusterRole{role("a", []string{"x", "y"}, "pods")}, []string{"pods"}},
		"itself is not selected": {[]*rbacv1.ClusterRole{role("a", []string{"x"}, "pods")}, []string{"pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t)
				// Rules written by hand are replaced.
				controltest.Create(p, aggregated(role("sum", []string{"x"}, "foreign"), "x", "y"))
				for _, r := range test.roles {
					controltest.Create(p, r)
				}
				expect(t, p, "sum", test.want...)
			})
		})
	}
}

func TestFollowsEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, aggregated(role("view", []string{"to-edit"}), "to-view"))
		controltest.Create(p, aggregated(role("edit", nil), "to-edit"))
		expect(t, p, "edit")
		controltest.Create(p, role("mine", []string{"to-view"}, "widgets"))
		expect(t, p, "view", "widgets")
		expect(t, p, "edit", "widgets") // through view, which is aggregated itself
		controltest.Change(p, "", "mine", func(r *rbacv1.ClusterRole) { r.Rules[0].Resources = []string{"gadgets"} })
		expect(t, p, "edit", "gadgets")
		controltest.Change(p, "", "edit", func(r *rbacv1.ClusterRole) { r.Rules = nil })
		expect(t, p, "edit", "gadgets")
		controltest.Change(p, "", "mine", func(r *rbacv1.ClusterRole) { r.Labels = nil })
		expect(t, p, "edit")
		controltest.Change(p, "", "mine", func(r *rbacv1.ClusterRole) { r.Labels = map[string]string{"to-edit": "true"} })
		expect(t, p, "edit", "gadgets")
		p.Remove(controltest.Get[*rbacv1.ClusterRole](p, "", "mine"))
		expect(t, p, "edit")
		writes := len(p.Writes())
		controltest.Create(p, role("other", nil, "pods"))
		settle()
		if n := len(p.Writes()) - writes; n != 1 {
			t.Errorf("got %d writes, want only the test's own", n)
		}
	})
}

func TestInvalidSelectorAffectsNoOtherRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		bad := role("bad", nil, "pods")
		bad.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Near"}},
		}}}
		controltest.Create(p, bad)
		controltest.Create(p, role("a", []string{"x"}, "secrets"))
		controltest.Create(p, aggregated(role("good", nil), "x"))
		expect(t, p, "good", "secrets")
		expect(t, p, "bad", "pods")
	})
}

// TestAnyOrder creates the same roles in random order, with changes in between, and expects the
// same result.
func TestAnyOrder(t *testing.T) {
	var want map[string][]rbacv1.PolicyRule
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			p := plane(t)
			roles := []*rbacv1.ClusterRole{aggregated(role("sum", nil), "l0", "l1"), aggregated(role("sums", nil), "l2")}
			for i := range 12 {
				resources := []string{fmt.Sprint("r", i%5), fmt.Sprint("r", i%3)}
				roles = append(roles, role(fmt.Sprint("part", i), []string{fmt.Sprint("l", i%4)}, resources...))
			}
			for _, i := range random.Perm(len(roles)) {
				r := controltest.Create(p, roles[i].DeepCopy())
				switch random.IntN(3) {
				case 0:
					settle()
				case 1:
					p.Remove(controltest.Get[*rbacv1.ClusterRole](p, "", r.Name))
					controltest.Create(p, roles[i].DeepCopy())
				}
			}
			settle()
			got := map[string][]rbacv1.PolicyRule{}
			for _, name := range []string{"sum", "sums"} {
				got[name] = controltest.Get[*rbacv1.ClusterRole](p, "", name).Rules
			}
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) || len(got["sum"]) == 0 {
				t.Errorf("seed %d: %v, want %v", seed, got, want)
			}
		})
	}
}
