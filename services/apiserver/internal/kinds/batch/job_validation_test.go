package batch

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func job() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", UID: "u"}, Spec: batchv1.JobSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "u"}}, Template: template(),
	}}
}

func index(j *batchv1.Job) {
	j.Spec.CompletionMode, j.Spec.Completions = new(batchv1.IndexedCompletion), new(int32(10))
}

func failing(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
}

func succeeding(rules ...batchv1.SuccessPolicyRule) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		index(j)
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: rules}
	}
}

func codes(operator batchv1.PodFailurePolicyOnExitCodesOperator, values ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: operator, Values: values}}
}

func TestJob(t *testing.T) {
	labelsJSON := `{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"x","controller-uid":"u","job-name":"x"}`
	for _, tc := range []struct {
		name   string
		change func(*batchv1.Job)
		want   []string
	}{
		{"plain", func(*batchv1.Job) {}, nil},
		{"negative numbers", func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions, j.Spec.ActiveDeadlineSeconds = new(int32(-1)), new(int32(-2)), new(int64(-3))
			j.Spec.BackoffLimit, j.Spec.TTLSecondsAfterFinished = new(int32(-4)), new(int32(-5))
		}, []string{
			"spec.parallelism: Invalid value: -1: " + negative, "spec.completions: Invalid value: -2: " + negative, "spec.activeDeadlineSeconds: Invalid value: -3: " + negative,
			"spec.backoffLimit: Invalid value: -4: " + negative, "spec.ttlSecondsAfterFinished: Invalid value: -5: " + negative,
		}},
		{"negative numbers of indexes", func(j *batchv1.Job) {
			index(j)
			j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int32(-1)), new(int32(-2))
		}, []string{"spec.backoffLimitPerIndex: Invalid value: -1: " + negative, "spec.maxFailedIndexes: Invalid value: -2: " + negative}},
		{"failed indexes without a limit", func(j *batchv1.Job) { index(j); j.Spec.MaxFailedIndexes = new(int32(1)) }, []string{"spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"}},
		{"not indexed", func(j *batchv1.Job) {
			j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int32(1)), new(int32(1))
		}, []string{
			"spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode", "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
		}},
		{"mode", func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.CompletionMode("Odd")) }, []string{`spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"`}},
		{"indexed without completions", func(j *batchv1.Job) { index(j); j.Spec.Completions, j.Spec.Parallelism = nil, new(int32(1)) }, []string{"spec.completions: Required value: when completion mode is Indexed"}},
		{"too parallel", func(j *batchv1.Job) { index(j); j.Spec.Parallelism = new(int32(100_001)) }, []string{"spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed"}},
		{"more failed than all", func(j *batchv1.Job) {
			index(j)
			j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int32(1)), new(int32(11))
		}, []string{"spec.maxFailedIndexes: Invalid value: 11: must be less than or equal to completions"}},
		{"many completions", func(j *batchv1.Job) {
			index(j)
			j.Spec.BackoffLimitPerIndex, j.Spec.Completions, j.Spec.Parallelism = new(int32(1)), new(int32(100_001)), new(int32(10_001))
		}, []string{
			"spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
			"spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
		}},
		{"many failures", func(j *batchv1.Job) {
			index(j)
			j.Spec.BackoffLimitPerIndex, j.Spec.Completions, j.Spec.MaxFailedIndexes = new(int32(1)), new(int32(200_000)), new(int32(100_001))
		}, []string{
			"spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
			"spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
		}},
		{"manager", func(j *batchv1.Job) { j.Spec.ManagedBy = new("plain") }, []string{`spec.managedBy: Invalid value: "plain": must be a domain-prefixed path (such as "acme.io/foo")`}},
		{"long manager", func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/" + strings.Repeat("a", 60)) }, []string{"spec.managedBy: Too long: may not be more than 63 bytes"}},
		{"restart policy", func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = "" }, []string{`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`}},
		{"restart with failure policy", func(j *batchv1.Job) {
			failing(codes("In", 1))(j)
			j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}, []string{`spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified`}},
		{"container", func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "" }, []string{"spec.template.spec.containers[0].image: Required value"}},
		{"replacement", func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.PodReplacementPolicy("Odd")) }, []string{`spec.podReplacementPolicy: Unsupported value: "Odd": supported values: "Failed", "TerminatingOrFailed"`}},
		{"replacement with failure policy", func(j *batchv1.Job) {
			failing(codes("In", 1))(j)
			j.Spec.PodReplacementPolicy = new(batchv1.TerminatingOrFailed)
		}, []string{`spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"`}},
		{"last pod's name", func(j *batchv1.Job) {
			index(j)
			j.Spec.Template.Labels[legacyJobName], j.Spec.Template.Labels[batchv1.JobNameLabel] = "a.b", "a.b"
			j.Name = "a.b"
		}, []string{`metadata.name: Invalid value: "a.b": will not able to create pod with invalid DNS label: a.b-9`}},
		{"own selector", func(j *batchv1.Job) {
			j.Spec.ManualSelector, j.Spec.Selector = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, []string{"spec.template.metadata.labels: Invalid value: " + labelsJSON + ": `selector` does not match template `labels`"}},
		{"no selector", func(j *batchv1.Job) { j.Spec.Selector = nil }, []string{
			"spec.selector: Required value", "spec.template.metadata.labels: Invalid value: " + labelsJSON + ": `selector` does not match template `labels`",
		}},
		{"forged selector", func(j *batchv1.Job) {
			j.Spec.Selector.MatchLabels["a"], j.Spec.Template.Labels = "b", map[string]string{"a": "b", batchv1.ControllerUidLabel: "u", legacyJobName: "y"}
		}, []string{
			"spec.template.metadata.labels[controller-uid]: Required value: must be 'u'",
			`spec.template.metadata.labels[job-name]: Invalid value: {"a":"b","batch.kubernetes.io/controller-uid":"u","job-name":"y"}: must be 'x'`,
			"spec.template.metadata.labels[batch.kubernetes.io/job-name]: Required value: must be 'x'",
			"spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u\"}}: `selector` not auto-generated",
		}},
		{"no uid", func(j *batchv1.Job) {
			j.UID = ""
			j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = ""
			j.Spec.Template.Labels[batchv1.ControllerUidLabel], j.Spec.Template.Labels[legacyControllerUID] = "", ""
		}, []string{"metadata.uid: Required value"}},

		{"failure policy", failing(codes("In", 1, 2), batchv1.PodFailurePolicyRule{Action: "FailJob", OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: "DisruptionTarget"}}}), nil},
		{"failure action", failing(batchv1.PodFailurePolicyRule{}, batchv1.PodFailurePolicyRule{Action: "Cry", OnExitCodes: codes("NotIn", 0).OnExitCodes}, batchv1.PodFailurePolicyRule{Action: "FailIndex", OnExitCodes: codes("NotIn", 0).OnExitCodes}), []string{
			`spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`,
			"spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
			`spec.podFailurePolicy.rules[1].action: Unsupported value: "Cry": supported values: "Count", "FailIndex", "FailJob", "Ignore"`,
			`spec.podFailurePolicy.rules[2].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set`,
		}},
		{"both reasons", failing(batchv1.PodFailurePolicyRule{Action: "Ignore", OnExitCodes: codes("In", 1).OnExitCodes, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: "a b", Status: "Maybe"}}}), []string{
			"spec.podFailurePolicy.rules[0].onPodConditions[0].type: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
			`spec.podFailurePolicy.rules[0].onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`,
			"spec.podFailurePolicy.rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
		}},
		{"exit codes", failing(codes("", 1), codes("In"), codes("In", 2, 0, 0), codes("About", 1)), []string{
			`spec.podFailurePolicy.rules[0].onExitCodes.operator: Required value: valid values: ["In" "NotIn"]`,
			"spec.podFailurePolicy.rules[1].onExitCodes.values: Invalid value: null: at least one value is required",
			"spec.podFailurePolicy.rules[2].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
			"spec.podFailurePolicy.rules[2].onExitCodes.values[2]: Invalid value: 0: must not be 0 for the In operator",
			"spec.podFailurePolicy.rules[2].onExitCodes.values[2]: Duplicate value: 0",
			"spec.podFailurePolicy.rules[2].onExitCodes.values: Invalid value: [2,0,0]: must be ordered",
			`spec.podFailurePolicy.rules[3].onExitCodes.operator: Unsupported value: "About": supported values: "In", "NotIn"`,
		}},
		{"container of exit codes", func(j *batchv1.Job) {
			j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
			rules := []batchv1.PodFailurePolicyRule{codes("In", 1), codes("In", 1), codes("In", 1)}
			rules[0].OnExitCodes.ContainerName, rules[1].OnExitCodes.ContainerName, rules[2].OnExitCodes.ContainerName = new("a"), new("init"), new("other")
			failing(rules...)(j)
		}, []string{`spec.podFailurePolicy.rules[2].onExitCodes.containerName: Invalid value: "other": must be one of the container or initContainer names in the pod template`}},
		{"many rules", failing(make([]batchv1.PodFailurePolicyRule, 21)...), []string{"spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"}},
		{"many codes", failing(codes("NotIn", numbers(256)...)), []string{"spec.podFailurePolicy.rules[0].onExitCodes.values: Too many: 256: must have at most 255 items"}},
		{"many conditions", failing(batchv1.PodFailurePolicyRule{Action: "Ignore", OnPodConditions: patterns(21)}), []string{"spec.podFailurePolicy.rules[0].onPodConditions: Too many: 21: must have at most 20 items"}},

		{"success policy", succeeding(batchv1.SuccessPolicyRule{SucceededIndexes: new("0,2-4"), SucceededCount: new(int32(2))}), nil},
		{"success policy, not indexed", func(j *batchv1.Job) { j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{} }, []string{"spec.successPolicy: Invalid value: {\"rules\":null}: requires indexed completion mode"}},
		{"no success rules", succeeding(), []string{"spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified"}},
		{"many success rules", succeeding(make([]batchv1.SuccessPolicyRule, 21)...), []string{"spec.successPolicy.rules: Too many: 21: must have at most 20 items"}},
		{"success rules", succeeding(
			batchv1.SuccessPolicyRule{}, batchv1.SuccessPolicyRule{SucceededCount: new(int32(-1))}, batchv1.SuccessPolicyRule{SucceededCount: new(int32(11))},
			batchv1.SuccessPolicyRule{SucceededIndexes: new("1-3"), SucceededCount: new(int32(4))},
			batchv1.SuccessPolicyRule{SucceededIndexes: new("3-1")}, batchv1.SuccessPolicyRule{SucceededIndexes: new("1-2-3")}, batchv1.SuccessPolicyRule{SucceededIndexes: new("2,1")},
			batchv1.SuccessPolicyRule{SucceededIndexes: new("10")}, batchv1.SuccessPolicyRule{SucceededIndexes: new("1-x")},
		), []string{
			"spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
			"spec.successPolicy.rules[1].succeededCount: Invalid value: -1: " + negative,
			"spec.successPolicy.rules[2].succeededCount: Invalid value: 11: must be less than or equal to 10 (the number of specified completions)",
			"spec.successPolicy.rules[3].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)",
			`spec.successPolicy.rules[4].succeededIndexes: Invalid value: "3-1": error parsing succeededIndexes: non-increasing order, previous: 3, current: 1`,
			`spec.successPolicy.rules[5].succeededIndexes: Invalid value: "1-2-3": error parsing succeededIndexes: the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'`,
			`spec.successPolicy.rules[6].succeededIndexes: Invalid value: "2,1": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1`,
			`spec.successPolicy.rules[7].succeededIndexes: Invalid value: "10": error parsing succeededIndexes: too large index: "10"`,
			`spec.successPolicy.rules[8].succeededIndexes: Invalid value: "1-x": error parsing succeededIndexes: cannot convert string to integer for index: "x"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := job()
			tc.change(j)
			defaultJob(j)
			if strings.HasPrefix(tc.name, "many rules") || strings.HasPrefix(tc.name, "many success") {
				errortest.Contain(t, validateJob(j), tc.want...) // Each of the empty rules is invalid as well.
				return
			}
			errortest.Exactly(t, validateJob(j), tc.want...)
		})
	}
}

func numbers(count int32) (list []int32) {
	for n := range count {
		list = append(list, n)
	}
	return list
}

func patterns(count int) (list []batchv1.PodFailurePolicyOnPodConditionsPattern) {
	for range count {
		list = append(list, batchv1.PodFailurePolicyOnPodConditionsPattern{Type: "a"})
	}
	return list
}

func TestJobUpdate(t *testing.T) {
	suspend := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	begun := func(j *batchv1.Job) { suspend(j); j.Status.StartTime = new(metav1.Now()) }
	nowhere := func(*batchv1.Job) {}
	placed := func(j *batchv1.Job) {
		spec := &j.Spec.Template.Spec
		spec.NodeSelector, spec.Tolerations = map[string]string{"a": "b"}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		spec.SchedulingGates, j.Spec.Template.Annotations = []corev1.PodSchedulingGate{{Name: "g"}}, map[string]string{"a": "b"}
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	}
	for _, tc := range []struct {
		name        string
		old, change func(*batchv1.Job)
		want        []string
	}{
		{"nothing", nowhere, nowhere, nil},
		{"allowed changes", nowhere, func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Suspend, j.Spec.ActiveDeadlineSeconds, j.Spec.TTLSecondsAfterFinished, j.Spec.BackoffLimit = new(int32(7)), new(true), new(int64(5)), new(int32(5)), new(int32(1))
		}, nil},
		{"completions", nowhere, func(j *batchv1.Job) { j.Spec.Completions = new(int32(7)) }, []string{"spec.completions: Invalid value: 7: field is immutable"}},
		{"elastic", index, func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(7)), new(int32(7)) }, nil},
		{"half elastic", index, func(j *batchv1.Job) { j.Spec.Completions = new(int32(7)) }, []string{"spec.completions: Invalid value: 7: can only be modified in tandem with spec.parallelism"}},
		{"mode", nowhere, func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }, []string{`spec.completionMode: Invalid value: "Indexed": field is immutable`}},
		{"limit per index", index, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = new(int32(1)) }, []string{"spec.backoffLimitPerIndex: Invalid value: 1: field is immutable"}},
		{"manager", nowhere, func(j *batchv1.Job) { j.Spec.ManagedBy = new("a.b/c") }, []string{`spec.managedBy: Invalid value: "a.b/c": field is immutable`}},
		{"failure policy", func(j *batchv1.Job) { failing(codes("In", 1))(j) }, func(j *batchv1.Job) { j.Spec.PodFailurePolicy.Rules[0].Action = "Count" }, []string{
			`spec.podFailurePolicy: Invalid value: {"rules":[{"action":"Count","onExitCodes":{"operator":"In","values":[1]}}]}: field is immutable`,
		}},
		{"success policy", succeeding(batchv1.SuccessPolicyRule{SucceededCount: new(int32(1))}), func(j *batchv1.Job) { j.Spec.SuccessPolicy = nil }, []string{"spec.successPolicy: Invalid value: null: field is immutable"}},
		{"selector", func(j *batchv1.Job) { j.Spec.ManualSelector = new(true) }, func(j *batchv1.Job) {
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{legacyJobName: "x"}}
		}, []string{`spec.selector: Invalid value: {"matchLabels":{"job-name":"x"}}: field is immutable`}},
		{"placed while suspended", suspend, placed, nil},
		{"placed once suspended", func(j *batchv1.Job) { begun(j); j.Status.Conditions = now(batchv1.JobSuspended) }, placed, nil},
		{"labels of pods", suspend, func(j *batchv1.Job) { delete(j.Spec.Template.Labels, legacyJobName) }, nil},
		{"affinity withdrawn", func(j *batchv1.Job) { suspend(j); placed(j) }, func(j *batchv1.Job) { j.Spec.Template.Spec.Affinity = nil }, nil},
		{"old labels", func(j *batchv1.Job) {
			j.Spec.Template.Labels = map[string]string{legacyControllerUID: "u", legacyJobName: "x"}
			j.Spec.Selector.MatchLabels = map[string]string{legacyControllerUID: "u"}
		}, nowhere, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := job()
			tc.old(old)
			defaultJob(old)
			j := old.DeepCopy()
			tc.change(j)
			errortest.Exactly(t, validateJobUpdate(j, old), tc.want...)
		})
	}
	for name, tc := range map[string]struct {
		old, change func(*batchv1.Job)
		field       string
	}{
		"template": {nowhere, func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "c" }, "spec.template"},
		"placed":   {nowhere, placed, "spec.template"}, "placed too late": {begun, placed, "spec.template"},
		"placed while active": {func(j *batchv1.Job) { suspend(j); j.Status.Active = 1 }, placed, "spec.template"},
		"suspended template":  {suspend, func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "c" }, "spec.template.spec"},
		"renamed container": {suspend, func(j *batchv1.Job) {
			placed(j)
			j.Spec.Template.Spec.Containers[0].Name = "other"
		}, "spec.template.spec"},
		"other affinity": {suspend, func(j *batchv1.Job) {
			j.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
		}, "spec.template.spec"},
	} {
		t.Run(name, func(t *testing.T) {
			old := job()
			tc.old(old)
			defaultJob(old)
			j := old.DeepCopy()
			tc.change(j)
			if errs := validateJobUpdate(j, old); len(errs) != 1 || errs[0].Field != tc.field || errs[0].Detail != "field is immutable" {
				t.Errorf("got %v", errs)
			}
		})
	}
}
