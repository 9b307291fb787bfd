package devicetainteviction

import (
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func wantCondition(t *testing.T, p *controltest.Plane, when string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	t.Helper()
	synctest.Wait()
	got := controltest.Get[*resourcev1.DeviceTaintRule](p, "", "rule")
	if len(got.Status.Conditions) != 1 {
		t.Fatalf("%s the conditions are %+v", when, got.Status.Conditions)
	}
	c := got.Status.Conditions[0]
	if c.Type != "EvictionInProgress" || c.Status != status || c.Reason != reason || c.Message != message || c.ObservedGeneration != got.Generation {
		t.Errorf("%s the condition is %+v, want %s %s %q", when, c, status, reason, message)
	}
	return c
}

// TestRulesSayWhatTheyWouldDo checks the status of rules that drive nobody off.
func TestRulesSayWhatTheyWouldDo(t *testing.T) {
	const end = "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
	elsewhere := pod("q")
	elsewhere.Namespace = "elsewhere"
	second := claim("q")
	second.Namespace = "elsewhere"
	other := rule(resourcev1.DeviceTaintEffectNone)
	other.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: new("driver"), Pool: new("pool"), Device: new("gpu")}
	for name, tt := range map[string]struct {
		rule            *resourcev1.DeviceTaintRule
		many            bool
		reason, message string
	}{
		"none": {rule(resourcev1.DeviceTaintEffectNone), true, "NoEffect",
			"2 published devices selected. 3 allocated devices selected. 2 pods would be evicted in 2 different namespaces " + end},
		"none, of one device": {other, false, "NoEffect",
			"1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace " + end},
		"NoSchedule": {rule(resourcev1.DeviceTaintEffectNoSchedule), true, "OtherEffect", "Eviction only happens for the NoExecute effect."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t, slice("old", 1), slice("s", 2), claim("p"), pod("p"))
				if tt.many {
					p.Load(second, elsewhere, claim("tolerant", tolerates(-1)), pod("tolerant"))
				}
				run(t, p)
				settle()
				now := metav1.Now() // The test's clock is not that of the table.
				tt.rule.Spec.Taint.TimeAdded = &now
				p.Load(tt.rule)
				settle()
				first := wantCondition(t, p, "at first", metav1.ConditionFalse, tt.reason, tt.message)
				p.Remove(controltest.Get[*resourcev1.ResourceSlice](p, "", "s"))
				time.Sleep(time.Minute)
				if later := wantCondition(t, p, "later", metav1.ConditionFalse, tt.reason, tt.message); later != first {
					t.Errorf("the condition became %+v", later)
				}
			})
		})
	}
}

// TestRulesFollowEvictions checks the status of a rule from its beginning to its end.
func TestRulesFollowEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, controltest.New(t, claim("p", tolerates(20)), pod("p"), claim("q", tolerates(60)), pod("q"), claim("r", tolerates(-1)), pod("r")))
		settle()
		r := rule(resourcev1.DeviceTaintEffectNoSchedule)
		p.Load(r)
		settle()
		wantCondition(t, p, "without the effect", metav1.ConditionFalse, "OtherEffect", "Eviction only happens for the NoExecute effect.")
		controltest.Change(p, "", "rule", func(r *resourcev1.DeviceTaintRule) {
			r.Spec.Taint = noExecute()
		})
		time.Sleep(11 * time.Second)
		wantCondition(t, p, "at first", metav1.ConditionTrue, "PodsPendingEviction", "2 pods need to be evicted in 1 namespace.")
		time.Sleep(25 * time.Second)
		wantCondition(t, p, "after the first", metav1.ConditionTrue, "PodsPendingEviction",
			"1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.")
		time.Sleep(40 * time.Second)
		done := wantCondition(t, p, "in the end", metav1.ConditionFalse, "Completed", "2 pods evicted since starting the controller.")
		time.Sleep(time.Hour)
		if later := wantCondition(t, p, "much later", metav1.ConditionFalse, "Completed", done.Message); later != done {
			t.Errorf("the condition became %+v", later)
		}
		controltest.Change(p, "", "rule", func(r *resourcev1.DeviceTaintRule) {
			r.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNone
		})
		time.Sleep(15 * time.Second)
		wantCondition(t, p, "without effect", metav1.ConditionFalse, "NoEffect", "0 published devices selected. 3 allocated devices selected. "+
			"0 pods would be evicted in 0 different namespaces if the effect was NoExecute. This information will not be updated again. "+
			"Recreate the DeviceTaintRule to trigger an update. 2 pods evicted since starting the controller.")
	})
}

// TestARuleWithoutPods checks a rule that finds nobody, and one whose pods end by themselves.
func TestARuleWithoutPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, controltest.New(t, claim("p", tolerates(6000)), pod("p")))
		settle()
		p.Load(rule(resourcev1.DeviceTaintEffectNoExecute))
		settle()
		wantCondition(t, p, "at first", metav1.ConditionTrue, "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
		p.Remove(pod("p"))
		time.Sleep(30 * time.Second)
		wantCondition(t, p, "in the end", metav1.ConditionFalse, "NotStarted", "")
	})
}
