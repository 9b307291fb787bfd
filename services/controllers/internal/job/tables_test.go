package job

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParseIndexes(t *testing.T) {
	for _, tt := range []struct {
		text        string
		completions int
		want        string
		total       int
	}{
		{"", 5, "", 0}, {"0", 5, "0", 1}, {"0,1", 5, "0,1", 2}, {"0-2", 5, "0-2", 3}, {"0,2,4", 5, "0,2,4", 3},
		{"0-1,2", 5, "0-2", 3}, {"2-8", 5, "2-4", 3}, {"5", 5, "", 0}, {"1,7-9", 5, "1", 1}, {"x,3", 5, "3", 1},
		{"1-x,3", 5, "3", 1}, {"-1,2", 5, "2", 1}, {"4-2,1", 5, "1", 1}, {"3,1,2", 5, "1-3", 3}, {"1-3,2-4", 9, "1-4", 4},
		{"0-999999999", 1000000000, "0-999999999", 1000000000}, {"99999999999999999999", 5, "", 0},
	} {
		got := parseIndexes(tt.text, tt.completions)
		if got.String() != tt.want || got.total() != tt.total {
			t.Errorf("%q below %d: got %q (%d), want %q (%d)", tt.text, tt.completions, got, got.total(), tt.want, tt.total)
		}
	}
}

func TestSetsOfIndexes(t *testing.T) {
	for _, tt := range []struct {
		a, b, union string
		common      int
	}{
		{"", "", "", 0}, {"0", "", "0", 0}, {"", "3-4", "3,4", 0}, {"0,2", "1", "0-2", 0}, {"0-3", "2-5", "0-5", 2},
		{"0-9", "3,5", "0-9", 2}, {"1,5", "0,3,7", "0,1,3,5,7", 0}, {"0-1,6", "1-6", "0-6", 2}, {"1-2,4-5", "1-2,5", "1,2,4,5", 3},
	} {
		a, b := parseIndexes(tt.a, 100), parseIndexes(tt.b, 100)
		if got := a.merge(b).String(); got != tt.union {
			t.Errorf("%q and %q are %q, want %q", tt.a, tt.b, got, tt.union)
		}
		if x, y := a.common(b), b.common(a); x != tt.common || y != tt.common {
			t.Errorf("%q and %q have %d and %d in common, want %d", tt.a, tt.b, x, y, tt.common)
		}
	}
	have := parseIndexes("1-3,7", 10)
	for index, want := range []bool{false, true, true, true, false, false, false, true, false} {
		if have.has(index) != want {
			t.Errorf("%d: %v", index, !want)
		}
	}
}

func TestGaps(t *testing.T) {
	for _, tt := range []struct {
		taken              string
		count, completions int
		want               []int
	}{
		{"", 2, 5, []int{0, 1}}, {"", 9, 2, []int{0, 1}}, {"0-1", 2, 5, []int{2, 3}}, {"1,3", 3, 5, []int{0, 2, 4}}, {"0-4", 3, 5, nil},
		{"2-4", 9, 5, []int{0, 1}}, {"", 0, 5, nil}, {"0-999999998", 500, 1000000000, []int{999999999}}, {"6-9", 2, 5, []int{0, 1}},
	} {
		if got := parseIndexes(tt.taken, 1000000000).gaps(tt.count, tt.completions); !slices.Equal(got, tt.want) {
			t.Errorf("%d below %d beside %q: got %v, want %v", tt.count, tt.completions, tt.taken, got, tt.want)
		}
	}
}

// exit returns the status of a container that ended with a code.
func exit(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func TestPodFailurePolicy(t *testing.T) {
	onCodes := func(action batchv1.PodFailurePolicyAction, op batchv1.PodFailurePolicyOnExitCodesOperator, container *string, codes ...int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: container, Operator: op, Values: codes,
		}}
	}
	onDisruption := func(action batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		}}
	}
	const (
		ignore, failJob, failIndex, count = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionFailJob,
			batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionCount
		in, notIn = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	)
	main, other := "main", "other"
	disrupted := []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	for name, tt := range map[string]struct {
		rules   []batchv1.PodFailurePolicyRule
		status  corev1.PodStatus
		want    batchv1.PodFailurePolicyAction
		message string
	}{
		"no rules": {status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exit("main", 1)}}},
		"code of any container": {
			[]batchv1.PodFailurePolicyRule{onCodes(failJob, in, nil, 1, 2)},
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exit("other", 0), exit("main", 2)}},
			failJob, "Container main for pod default/p failed with exit code 2 matching FailJob rule at index 0",
		},
		"code of the named container": {
			[]batchv1.PodFailurePolicyRule{onCodes(ignore, in, &other, 2), onCodes(count, in, &main, 2)},
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exit("main", 2)}}, count, "",
		},
		"another code":       {[]batchv1.PodFailurePolicyRule{onCodes(ignore, notIn, nil, 1, 2)}, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exit("main", 3)}}, ignore, ""},
		"none of the codes":  {[]batchv1.PodFailurePolicyRule{onCodes(ignore, notIn, nil, 3)}, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exit("main", 3)}}, "", ""},
		"success is no code": {[]batchv1.PodFailurePolicyRule{onCodes(ignore, notIn, nil, 3)}, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exit("main", 0)}}, "", ""},
		"still running":      {[]batchv1.PodFailurePolicyRule{onCodes(ignore, in, nil, 3)}, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main"}}}, "", ""},
		"init container":     {[]batchv1.PodFailurePolicyRule{onCodes(failIndex, in, nil, 3)}, corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{exit("main", 3)}}, failIndex, ""},
		"condition":          {[]batchv1.PodFailurePolicyRule{onDisruption(ignore)}, corev1.PodStatus{Conditions: disrupted}, ignore, ""},
		"condition fails the job": {
			[]batchv1.PodFailurePolicyRule{onCodes(ignore, in, nil, 1), onDisruption(failJob)}, corev1.PodStatus{Conditions: disrupted},
			failJob, "Pod default/p has condition DisruptionTarget matching FailJob rule at index 1",
		},
		"the first rule goes first": {[]batchv1.PodFailurePolicyRule{onDisruption(count), onDisruption(ignore)}, corev1.PodStatus{Conditions: disrupted}, count, ""},
		"an unknown action":         {[]batchv1.PodFailurePolicyRule{onDisruption("New"), onDisruption(ignore)}, corev1.PodStatus{Conditions: disrupted}, ignore, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Status: tt.status}
			got := judge(&batchv1.PodFailurePolicy{Rules: tt.rules}, pod)
			if got.action != tt.want || got.message != tt.message || got.counts() != (tt.want != ignore) {
				t.Errorf("got %+v, counts %v", got, got.counts())
			}
		})
	}
}

func TestSuccessPolicyRules(t *testing.T) {
	rule := func(indexes string, count int32) batchv1.SuccessPolicyRule {
		var r batchv1.SuccessPolicyRule
		if indexes != "" {
			r.SucceededIndexes = &indexes
		}
		if count > 0 {
			r.SucceededCount = &count
		}
		return r
	}
	for name, tt := range map[string]struct {
		succeeded string
		rules     []batchv1.SuccessPolicyRule
		want      string
	}{
		"nothing succeeded":     {"", []batchv1.SuccessPolicyRule{rule("", 1)}, ""},
		"enough":                {"3,5", []batchv1.SuccessPolicyRule{rule("", 2)}, "Matched rules at index 0"},
		"too few":               {"3", []batchv1.SuccessPolicyRule{rule("", 2)}, ""},
		"all of the indexes":    {"0-4", []batchv1.SuccessPolicyRule{rule("1,3-4", 0)}, "Matched rules at index 0"},
		"one index lacks":       {"0-3", []batchv1.SuccessPolicyRule{rule("1,3-4", 0)}, ""},
		"enough of the indexes": {"0,3", []batchv1.SuccessPolicyRule{rule("9", 0), rule("0-4", 2)}, "Matched rules at index 1"},
		"indexes out of range":  {"0,3", []batchv1.SuccessPolicyRule{rule("50-60", 1)}, ""},
		"indexes of no use":     {"0,3", []batchv1.SuccessPolicyRule{rule("x", 1), rule("0", 0)}, "Matched rules at index 1"},
	} {
		if got := meets(&batchv1.SuccessPolicy{Rules: tt.rules}, 10, parseIndexes(tt.succeeded, 10)); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestBackoffs(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		count int
		ago   time.Duration
		want  time.Duration
	}{
		{0, 0, 0}, {1, 0, 10 * time.Second}, {1, 4 * time.Second, 6 * time.Second}, {1, time.Hour, 0}, {2, 0, 20 * time.Second},
		{3, 0, 40 * time.Second}, {6, 0, 320 * time.Second}, {7, 0, 10 * time.Minute}, {2000000000, 0, 10 * time.Minute},
		{1, -time.Second, 11 * time.Second},
	} {
		if got := backoff(tt.count, now.Add(-tt.ago), now); got != tt.want {
			t.Errorf("%d failures, the last %v ago: got %v, want %v", tt.count, tt.ago, got, tt.want)
		}
	}
}

func TestFailures(t *testing.T) {
	base := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ended := func(seconds ...int) []*corev1.Pod {
		var pods []*corev1.Pod
		for _, s := range seconds {
			pods = append(pods, &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(base.Add(time.Duration(s) * time.Second))}},
			}}}})
		}
		return pods
	}
	for name, tt := range map[string]struct {
		before            failures
		succeeded, failed []*corev1.Pod
		count, last       int
	}{
		"nothing new":           {failures{count: 2, last: base.Add(time.Second)}, nil, nil, 2, 1},
		"failures add up":       {failures{count: 2, last: base}, nil, ended(9, 5), 4, 9},
		"a success":             {failures{count: 2, last: base}, ended(3), nil, 0, 0},
		"failures before it":    {failures{count: 2, last: base}, ended(3, 8), ended(5), 0, 0},
		"failures after it":     {failures{count: 2, last: base}, ended(3, 6), ended(5, 7, 9), 2, 9},
		"at the time of it":     {failures{}, ended(3), ended(3), 0, 0},
		"a failure of old pods": {failures{count: 1, last: base.Add(9 * time.Second)}, nil, ended(5), 2, 9},
	} {
		got := tt.before.with(tt.succeeded, tt.failed)
		if got.count != tt.count || tt.count > 0 && !got.last.Equal(base.Add(time.Duration(tt.last)*time.Second)) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestEndOf(t *testing.T) {
	at := func(s int) metav1.Time { return metav1.Unix(int64(s), 0) }
	done := func(name string, s int) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(s)}}}
	}
	always, grace := corev1.ContainerRestartPolicyAlways, int64(30)
	notReady := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(40)}}
	deleted := at(80)
	for name, tt := range map[string]struct {
		pod  corev1.Pod
		want int
	}{
		"the last container": {corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{done("a", 20), done("b", 30)}, Conditions: notReady}}, 30},
		"a container beside them": {corev1.Pod{
			Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "s", RestartPolicy: &always}, {Name: "i"}}},
			Status: corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{done("a", 20)}, InitContainerStatuses: []corev1.ContainerStatus{done("s", 25), done("i", 90)},
			},
		}, 25},
		"one still runs": {corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{done("a", 20), {Name: "b"}}, Conditions: notReady}}, 40},
		"deleted":        {corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(10), DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: &grace}}, 50},
		"unknown":        {corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(10)}}, 10},
	} {
		if got := endOf(&tt.pod); got.Unix() != int64(tt.want) {
			t.Errorf("%s: got %d, want %d", name, got.Unix(), tt.want)
		}
	}
}

func TestLeastProgress(t *testing.T) {
	base := metav1.Unix(1000, 0)
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: base}, Spec: corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: base,
			}}},
		}
		change(p)
		return p
	}
	same := func(*corev1.Pod) {}
	for name, change := range map[string]func(*corev1.Pod){
		"no node":   func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"pending":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"unknown":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown },
		"not ready": func(p *corev1.Pod) { p.Status.Conditions = nil },
		"ready for a shorter time": func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.Unix(1001, 0)
		},
		"more restarts": func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} },
		"younger":       func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(1001, 0) },
	} {
		if a, b := leastProgress(pod(change), pod(same)), leastProgress(pod(same), pod(change)); a >= 0 || b <= 0 {
			t.Errorf("%s: got %d and %d", name, a, b)
		}
	}
}
