package batch

import (
	"maps"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/apps"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestJobSelector(t *testing.T) {
	s := Job()
	made := func(change func(*batchv1.Job)) *batchv1.Job {
		j := kindtest.Sample[*batchv1.Job](t, s)
		j.Labels, j.Spec.Selector, j.Spec.Template.Labels = nil, nil, nil
		change(j)
		s.Default(j)
		s.PrepareForCreate(j)
		if own := j.Labels; len(own) == 0 && len(s.Validate(j)) > 0 {
			t.Errorf("a job without labels was rejected: %v", s.Validate(j))
		}
		s.Canonicalize(j)
		return j
	}
	stamped := map[string]string{"job-name": "sample", "controller-uid": "u", batchv1.JobNameLabel: "sample", batchv1.ControllerUidLabel: "u"}
	with := func(key, value string) map[string]string {
		m := maps.Clone(stamped)
		m[key] = value
		return m
	}
	for name, tc := range map[string]struct {
		change                     func(*batchv1.Job)
		selector, template, labels map[string]string
	}{
		"plain": {func(*batchv1.Job) {}, map[string]string{batchv1.ControllerUidLabel: "u"}, stamped, stamped},
		"same labels": {func(j *batchv1.Job) {
			j.Labels, j.Spec.Template.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
		}, map[string]string{batchv1.ControllerUidLabel: "u"}, with("a", "b"), map[string]string{"a": "b"}},
		"own labels":   {func(j *batchv1.Job) { j.Labels = map[string]string{"a": "b"} }, map[string]string{batchv1.ControllerUidLabel: "u"}, stamped, map[string]string{"a": "b"}},
		"pods' labels": {func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"a": "b"} }, map[string]string{batchv1.ControllerUidLabel: "u"}, with("a", "b"), with("a", "b")},
		"forged":       {func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"job-name": "x"} }, map[string]string{batchv1.ControllerUidLabel: "u"}, with("job-name", "x"), with("job-name", "x")},
		"manual": {func(j *batchv1.Job) {
			j.Spec.ManualSelector, j.Spec.Selector = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			j.Spec.Template.Labels = map[string]string{"a": "b"}
		}, map[string]string{"a": "b"}, map[string]string{"a": "b"}, map[string]string{"a": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := made(tc.change)
			if !maps.Equal(j.Spec.Selector.MatchLabels, tc.selector) || !maps.Equal(j.Spec.Template.Labels, tc.template) || !maps.Equal(j.Labels, tc.labels) {
				t.Errorf("got selector %v, pod labels %v and labels %v", j.Spec.Selector.MatchLabels, j.Spec.Template.Labels, j.Labels)
			}
			if j.Labels["own"] = "x"; j.Spec.Template.Labels["own"] != "" {
				t.Error("the job shares the labels of its pods")
			}
		})
	}
	j := made(func(*batchv1.Job) {})
	j.Name = "other"
	s.Renamed(j, "sample")
	if errs := s.Validate(j); len(errs) > 0 || j.Labels["job-name"] != "other" {
		t.Errorf("the renamed job was rejected: %v", errs.ToAggregate())
	}
	if !s.Orphans || !apps.ReplicationController().Orphans || apps.Deployment().Orphans || CronJob().Orphans {
		t.Error("exactly jobs and replication controllers must leave their pods behind")
	}
}

func TestDefaultJob(t *testing.T) {
	spec := func(change func(*batchv1.JobSpec)) batchv1.JobSpec {
		j := &batchv1.Job{}
		change(&j.Spec)
		defaultJob(j)
		j.Spec.Template = corev1.PodTemplateSpec{}
		return j.Spec
	}
	plain := batchv1.JobSpec{
		Completions: new(int32(1)), Parallelism: new(int32(1)), BackoffLimit: new(int32(6)), CompletionMode: new(batchv1.NonIndexedCompletion),
		Suspend: new(false), PodReplacementPolicy: new(batchv1.TerminatingOrFailed), ManualSelector: new(false),
	}
	if diff := cmp.Diff(plain, spec(func(*batchv1.JobSpec) {})); diff != "" {
		t.Errorf("a plain job (-want +got):\n%s", diff)
	}
	if s := spec(func(s *batchv1.JobSpec) { s.Parallelism = new(int32(3)) }); s.Completions != nil || *s.Parallelism != 3 {
		t.Errorf("work queue: got %v completions", s.Completions)
	}
	if s := spec(func(s *batchv1.JobSpec) { s.Completions = new(int32(3)) }); *s.Completions != 3 || *s.Parallelism != 1 {
		t.Errorf("job of three: got %d completions and parallelism %d", *s.Completions, *s.Parallelism)
	}
	if s := spec(func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = new(int32(1)) }); *s.BackoffLimit != math.MaxInt32 {
		t.Errorf("with a limit per index: got limit %d", *s.BackoffLimit)
	}
	s := spec(func(s *batchv1.JobSpec) {
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: "x"}, {Status: "False"}}}}}
	})
	if p := s.PodFailurePolicy.Rules[0].OnPodConditions; *s.PodReplacementPolicy != batchv1.Failed || p[0].Status != "True" || p[1].Status != "False" {
		t.Errorf("with a failure policy: got spec %+v", s)
	}
	j := &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}}}
	defaultJob(j)
	if !cmp.Equal(j.Labels, map[string]string{"a": "b"}) {
		t.Errorf("got labels %v, want the template's %v", j.Labels, j.Spec.Template.Labels)
	}
}

func now(kinds ...batchv1.JobConditionType) []batchv1.JobCondition {
	var list []batchv1.JobCondition
	for _, kind := range kinds {
		list = append(list, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	return list
}

func TestJobStatus(t *testing.T) {
	const complete, failed, target, met = batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet
	at := func(minute int) *metav1.Time {
		return new(metav1.NewTime(time.Date(2030, 1, 1, 12, minute, 0, 0, time.UTC)))
	}
	const conditions = "status.conditions: Invalid value: "
	nothing := func(*batchv1.Job) {}
	begin := func(j *batchv1.Job) { j.Status.StartTime = at(1) }
	done := func(j *batchv1.Job) {
		j.Status = batchv1.JobStatus{StartTime: at(1), CompletionTime: at(2), Conditions: now(complete, met), Succeeded: 1}
	}
	for _, tc := range []struct {
		name        string
		old, change func(*batchv1.Job)
		want        []string
	}{
		{"begun", nothing, func(j *batchv1.Job) { begin(j); j.Status.Active, j.Status.Ready = 2, new(int32(1)) }, nil},
		{"done", begin, done, nil},
		{"failed", begin, func(j *batchv1.Job) { j.Status.Conditions, j.Status.Failed = now(failed, target), 1 }, nil},
		{"negative", nothing, func(j *batchv1.Job) {
			j.Status = batchv1.JobStatus{Active: -1, Succeeded: -1, Failed: -1, Ready: new(int32(-1)), Terminating: new(int32(-1))}
		}, []string{
			"status.active: Invalid value: -1: " + negative, "status.succeeded: Invalid value: -1: " + negative, "status.failed: Invalid value: -1: " + negative,
			"status.ready: Invalid value: -1: " + negative, "status.terminating: Invalid value: -1: " + negative,
			"status.failed: Invalid value: -1: cannot decrease the failed counter", "status.succeeded: Invalid value: -1: cannot decrease the succeeded counter",
		}},
		{"more ready than active", begin, func(j *batchv1.Job) { j.Status.Ready = new(int32(1)) }, []string{"status.ready: Invalid value: 1: cannot set more ready pods than active"}},
		{"still active", begin, func(j *batchv1.Job) { done(j); j.Status.Active, j.Status.Terminating = 1, new(int32(2)) }, []string{
			"status.active: Invalid value: 1: active>0 is invalid for finished job", "status.terminating: Invalid value: 2: terminating>0 is invalid for finished job",
		}},
		{"uncounted", begin, func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a", ""}, Failed: []types.UID{"a", "b"}}
		}, []string{`status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty`, `status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"`}},
		{"uncounted when done", begin, func(j *batchv1.Job) {
			done(j)
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"b"}}
		}, []string{`status.uncountedTerminatedPods: Invalid value: {"failed":["b"]}: uncountedTerminatedPods needs to be empty for finished job`}},
		{"complete and failed", begin, func(j *batchv1.Job) { done(j); j.Status.Conditions = now(complete, failed, target) }, []string{
			conditions + "cannot set Complete=True and Failed=true conditions", conditions + "cannot set Complete=True and FailureTarget=true conditions",
			conditions + "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
		}},
		{"met and failed", begin, func(j *batchv1.Job) { j.Status.Conditions = now(met, failed, target) }, []string{
			conditions + "cannot set SuccessCriteriaMet=True and Failed=true conditions", conditions + "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
		}},
		{"failed without target", begin, func(j *batchv1.Job) { j.Status.Conditions = now(failed) }, []string{conditions + "cannot set Failed=True condition without the FailureTarget=true condition"}},
		{"complete against the policy", func(j *batchv1.Job) {
			begin(j)
			succeeding(batchv1.SuccessPolicyRule{SucceededCount: new(int32(1))})(j)
		}, func(j *batchv1.Job) { done(j); j.Status.Conditions = now(complete) }, []string{
			conditions + "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
			conditions + "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
		}},
		{"times of nothing", nothing, func(j *batchv1.Job) { done(j); j.Status.StartTime, j.Status.CompletionTime = nil, nil }, []string{
			"status.completionTime: Required value: completionTime is required for Complete jobs", "status.startTime: Required value: startTime is required for finished job",
		}},
		{"too early", begin, func(j *batchv1.Job) { j.Status.CompletionTime = at(0) }, []string{
			`status.completionTime: Invalid value: "2030-01-01T12:00:00Z": cannot set completionTime when there is no Complete=True condition`,
			`status.completionTime: Invalid value: "2030-01-01T12:00:00Z": completionTime cannot be set before startTime`,
		}},
		{"other completion", done, func(j *batchv1.Job) { j.Status.CompletionTime = at(3) }, []string{`status.completionTime: Invalid value: "2030-01-01T12:03:00Z": completionTime cannot be mutated`}},
		{"other start", begin, func(j *batchv1.Job) { j.Status.StartTime = at(2) }, []string{"status.startTime: Required value: startTime cannot be removed for unsuspended job"}},
		{"suspended", func(j *batchv1.Job) { begin(j); j.Spec.Suspend = new(true) }, func(j *batchv1.Job) { j.Status.StartTime = nil }, nil},
		{"taken back", done, func(j *batchv1.Job) { j.Status.Conditions, j.Status.CompletionTime, j.Status.Succeeded = nil, nil, 0 }, []string{
			conditions + "cannot disable the terminal Complete=True condition", "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
			conditions + "cannot disable the SuccessCriteriaMet=True condition",
		}},
		{"failure taken back", func(j *batchv1.Job) { begin(j); j.Status.Conditions, j.Status.Failed = now(failed, target), 3 }, func(j *batchv1.Job) { j.Status.Conditions, j.Status.Failed = nil, 2 }, []string{
			conditions + "cannot disable the terminal Failed=True condition", conditions + "cannot disable the terminal FailureTarget=True condition",
			"status.failed: Invalid value: 2: cannot decrease the failed counter",
		}},
		{"met too late", func(j *batchv1.Job) { done(j); j.Status.Conditions = now(complete) }, func(j *batchv1.Job) { j.Status.Conditions = now(complete, met) }, []string{
			conditions + "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
		}},
		{"elastic", func(j *batchv1.Job) { index(j); begin(j); j.Spec.Parallelism, j.Status.Succeeded = new(int32(10)), 5 }, func(j *batchv1.Job) { j.Status.Succeeded = 3 }, nil},
		{"indexes", func(j *batchv1.Job) { index(j); j.Spec.BackoffLimitPerIndex = new(int32(1)) }, func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = "0-2,5", new("3,7-9") }, nil},
		{"bad indexes", func(j *batchv1.Job) { index(j); j.Spec.BackoffLimitPerIndex = new(int32(1)) }, func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = "0-2,x", new("2,20") }, []string{
			`status.completedIndexes: Invalid value: "0-2,x": error parsing completedIndexes: cannot convert string to integer for index: "x"`,
			`status.failedIndexes: Invalid value: "2,20": error parsing failedIndexes: too large index: "20"`,
			`status.failedIndexes: Invalid value: "2,20": failedIndexes and completedIndexes overlap at index: 2`,
		}},
		{"overlapping indexes", func(j *batchv1.Job) { index(j); j.Spec.BackoffLimitPerIndex = new(int32(1)) }, func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = "0,2,5-8", new("1,3,7") }, []string{
			`status.failedIndexes: Invalid value: "1,3,7": failedIndexes and completedIndexes overlap at index: 7`,
		}},
		{"indexes of none", nothing, func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = "0", new("") }, []string{
			`status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode`,
			`status.failedIndexes: Invalid value: "": cannot set non-null failedIndexes when backoffLimitPerIndex is null`,
		}},
		{"invalid before", func(j *batchv1.Job) {
			j.Status = batchv1.JobStatus{Active: 1, Ready: new(int32(2)), Conditions: now(complete), CompletedIndexes: "x"}
		}, func(j *batchv1.Job) { j.Status.Failed = 1 }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := job()
			tc.old(old)
			defaultJob(old)
			j := old.DeepCopy()
			tc.change(j)
			errortest.Exactly(t, validateJobStatus(j, old), tc.want...)
		})
	}
}

func TestJobGenerations(t *testing.T) {
	obj := kindtest.Sample[*batchv1.Job](t, Job())
	changed := obj.DeepCopy()
	changed.Spec.Parallelism = new(int32(9))
	kindtest.Generations(t, Job(), obj, changed)
}

func TestJobFields(t *testing.T) {
	if got := Job().Fields(&batchv1.Job{Status: batchv1.JobStatus{Succeeded: 3}}); got["status.successful"] != "3" {
		t.Errorf("got fields %v", got)
	}
}

func TestJobWarnings(t *testing.T) {
	big := kindtest.Sample[*batchv1.Job](t, Job())
	big.Spec.CompletionMode, big.Spec.Completions, big.Spec.Parallelism = new(batchv1.IndexedCompletion), new(int32(100_001)), new(int32(10_001))
	want := []string{"spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"}
	if diff := cmp.Diff(want, Job().Warnings(big)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	changed := big.DeepCopy()
	if got := Job().Update.Warnings(changed, big); got != nil {
		t.Errorf("an unchanged job: got warnings %q", got)
	}
	changed.Generation++
	if diff := cmp.Diff(want, Job().Update.Warnings(changed, big)); diff != "" {
		t.Errorf("warnings of an update (-want +got):\n%s", diff)
	}
}
