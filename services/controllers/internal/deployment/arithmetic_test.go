package deployment

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func sized(replicas int32, surge, unavailable string) *appsv1.Deployment {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Strategy: appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
		},
	}}
}

func set(name string, replicas int32, minutes int) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(time.Date(2030, 1, 1, 0, minutes, 0, 0, time.UTC)),
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas},
	}
}

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		replicas           int32
		surge, unavailable string
		want               bounds
	}{
		{10, "25%", "25%", bounds{3, 2}},
		{1, "25%", "25%", bounds{1, 0}},
		{4, "1", "0", bounds{1, 0}},
		{4, "0", "0", bounds{0, 1}},
		{3, "0", "10%", bounds{0, 1}},
		{2, "0", "5", bounds{0, 2}},
		{0, "25%", "25%", bounds{0, 0}},
		{10, "100%", "100%", bounds{10, 10}},
		{10, "nonsense", "1", bounds{0, 1}},
	} {
		if got := boundsOf(sized(test.replicas, test.surge, test.unavailable)); got != test.want {
			t.Errorf("%d replicas, %s, %s: got %+v, want %+v", test.replicas, test.surge, test.unavailable, got, test.want)
		}
	}
	recreate := sized(5, "1", "1")
	recreate.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if got := boundsOf(recreate); got != (bounds{}) {
		t.Errorf("recreate: got %+v, want none", got)
	}
}

func TestNewSize(t *testing.T) {
	for _, test := range []struct{ replicas, surge, newest, old, want int32 }{
		{1, 1, 0, 1, 1}, {10, 2, 0, 10, 2}, {10, 2, 5, 10, 5}, {10, 2, 5, 0, 10}, {10, 0, 0, 10, 0}, {10, 5, 0, 0, 10}, {10, 5, 0, 20, 0},
	} {
		d := sized(test.replicas, fmt.Sprint(test.surge), "1")
		newest := set("new", test.newest, 1)
		if got := newSize(d, []*appsv1.ReplicaSet{newest, set("old", test.old, 0)}, newest); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}

func TestProportions(t *testing.T) {
	for name, test := range map[string]struct {
		replicas, surge, before int32 // before: the size with surge that the ReplicaSets last recorded
		sizes, want             []int32
	}{
		"5 to 10 in equal parts":       {10, 0, 5, []int32{2, 3}, []int32{4, 6}},
		"rounding goes to the largest": {11, 0, 5, []int32{2, 3}, []int32{4, 7}},
		"up among equals: to newest":   {7, 0, 6, []int32{3, 3}, []int32{3, 4}},
		"down among equals: of oldest": {5, 0, 6, []int32{3, 3}, []int32{2, 3}},
		"Kubernetes' documentation":    {15, 3, 13, []int32{8, 5}, []int32{11, 7}},
		"to zero":                      {0, 0, 10, []int32{5, 5}, []int32{0, 0}},
		"to one":                       {1, 0, 10, []int32{5, 5}, []int32{0, 1}},
		"a part that is too small":     {11, 0, 10, []int32{9, 1}, []int32{10, 1}},
		"no change":                    {10, 0, 10, []int32{7, 3}, []int32{7, 3}},
		"many":                         {20, 0, 10, []int32{5, 3, 2}, []int32{10, 6, 4}},
		"very many do not overflow":    {math.MaxInt32, 0, math.MaxInt32 - 2, []int32{math.MaxInt32 - 3, 1}, []int32{math.MaxInt32 - 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			d := sized(test.replicas, fmt.Sprint(test.surge), "1")
			var sets []*appsv1.ReplicaSet
			for i, n := range test.sizes {
				rs := set(fmt.Sprint("rs", i), n, i)
				setSizes(rs, 0, test.before)
				sets = append(sets, rs)
			}
			allowed := test.replicas + test.surge
			if test.replicas == 0 {
				allowed = 0
			}
			got := proportions(d, sets, allowed-sum(sets, size))
			for i, rs := range sets {
				if got[rs] != test.want[i] {
					t.Errorf("size of %s: got %d, want %v", rs.Name, got[rs], test.want)
				}
			}
		})
	}
}

func TestFractionWithoutItsAnnotation(t *testing.T) {
	d := sized(20, "0", "1")
	d.Status.Replicas = 10
	if got := fraction(d, set("a", 5, 0)); got != 5 {
		t.Errorf("by the status: got %d", got)
	}
	d.Status.Replicas = 0
	if got := fraction(d, set("a", 5, 0)); got != 0 {
		t.Errorf("without a status: got %d", got)
	}
}

func TestHistoryAnnotation(t *testing.T) {
	if got := addHistory("", "1"); got != "1" {
		t.Errorf("first: got %q", got)
	}
	if got := addHistory("1,2", "3"); got != "1,2,3" {
		t.Errorf("third: got %q", got)
	}
	long := strings.Repeat("123456789,", 220)
	got := addHistory(strings.TrimSuffix(long, ","), "7")
	if len(got) > maxHistoryLength || !strings.HasSuffix(got, ",7") || strings.HasPrefix(got, ",") {
		t.Errorf("%d characters: %q...", len(got), got[:20])
	}
}

func TestAnnotate(t *testing.T) {
	d := sized(4, "1", "0")
	d.Annotations = map[string]string{"a": "b", revisionAnnotation: "9"}
	rs := set("rs", 0, 0)
	if !annotate(d, rs, 3, false) || rs.Annotations["a"] != "b" || rs.Annotations[revisionAnnotation] != "3" ||
		rs.Annotations[desiredReplicasAnnotation] != "4" || rs.Annotations[maxReplicasAnnotation] != "5" {
		t.Errorf("new: got %v", rs.Annotations)
	}
	if annotate(d, rs, 3, true) || annotate(d, rs, 2, true) {
		t.Error("a change is reported though nothing changed")
	}
	if !annotate(d, rs, 5, true) || rs.Annotations[revisionHistoryAnnotation] != "3" {
		t.Errorf("raised: got %v", rs.Annotations)
	}
	rs.Annotations[revisionAnnotation] = "nonsense"
	if annotate(d, rs, 6, true) || rs.Annotations[revisionAnnotation] != "nonsense" {
		t.Errorf("an invalid revision: got %v", rs.Annotations)
	}
}

func TestSetName(t *testing.T) {
	if got := setName("web", "abc"); got != "web-abc" {
		t.Error(got)
	}
	if got := setName(strings.Repeat("a", 253), "abcdefghij"); len(got) > 253 || !strings.HasSuffix(got, "a-abcdefghij") {
		t.Errorf("%d characters", len(got))
	}
}

func TestSplitTakesTheOldestOfTwins(t *testing.T) {
	d := sized(1, "1", "1")
	a, b, c := set("a", 1, 2), set("b", 1, 1), set("c", 1, 0)
	c.Spec.Template.Spec.NodeName = "other"
	b.Spec.Template.Labels = map[string]string{hashLabel: "x"}
	newest, old := split(d, []*appsv1.ReplicaSet{a, b, c})
	if newest != b || len(old) != 2 || old[0] != c || old[1] != a {
		t.Errorf("got newest %s, want the oldest match", newest.Name)
	}
}

func TestTimedOut(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	seconds := int32(60)
	for name, test := range map[string]struct {
		seconds *int32
		reason  string
		ago     time.Duration
		want    bool
	}{
		"no deadline":      {nil, reasonUpdated, time.Hour, false},
		"in time":          {&seconds, reasonUpdated, 59 * time.Second, false},
		"late":             {&seconds, reasonUpdated, 61 * time.Second, true},
		"complete":         {&seconds, reasonAvailable, time.Hour, false},
		"timed out before": {&seconds, reasonTimedOut, 0, true},
		"paused for long":  {&seconds, reasonResumed, 61 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := sized(1, "1", "1")
			d.Spec.ProgressDeadlineSeconds = test.seconds
			status := appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Reason: test.reason, LastUpdateTime: metav1.NewTime(now.Add(-test.ago)),
			}}}
			if got := timedOut(d, &status, now); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if timedOut(sized(1, "1", "1"), &appsv1.DeploymentStatus{}, now) {
		t.Error("got a timeout without a condition")
	}
}

func TestSetConditionKeepsTimes(t *testing.T) {
	var status appsv1.DeploymentStatus
	old := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	set := func(value corev1.ConditionStatus, reason string) appsv1.DeploymentCondition {
		setCondition(&status, newCondition(appsv1.DeploymentAvailable, value, reason, ""))
		return status.Conditions[0]
	}
	set(corev1.ConditionTrue, "a")
	status.Conditions[0].LastTransitionTime, status.Conditions[0].LastUpdateTime = old, old
	if c := set(corev1.ConditionTrue, "a"); c.LastUpdateTime != old {
		t.Error("the same condition was written again")
	}
	if c := set(corev1.ConditionTrue, "b"); c.LastTransitionTime != old || c.LastUpdateTime == old {
		t.Errorf("another reason: got %+v", c)
	}
	if c := set(corev1.ConditionFalse, "b"); c.LastTransitionTime == old {
		t.Errorf("another status: got %+v", c)
	}
}
