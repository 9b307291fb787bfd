package job

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// TestMetrics follows an indexed Job, one of whose pods fails, and one that another controller manages.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		registry := prometheus.NewRegistry()
		p.Config.Registerer = registry
		p.Declare(New)
		p.Start()
		controltest.Create(p, newJob(2, 2, func(s *batchv1.JobSpec) {
			indexedMode(s)
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionCount, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
				},
			}}}
		}))
		foreign, other := newJob(1, 1, nil), "example.com/other"
		foreign.Name, foreign.UID, foreign.Spec.ManagedBy = "foreign", "uid-foreign", &other
		controltest.Create(p, foreign)
		settle()
		end(p, living(p)[0], 42)
		time.Sleep(time.Minute)
		for _, pod := range living(p) {
			end(p, pod, 0)
		}
		settle()
		got := counters(t, registry)
		for name := range got {
			if strings.HasPrefix(name, "job_controller_job_syncs_total") {
				delete(got, name) // How many changes share a reconcile depends on their times.
			}
		}
		if want := map[string]float64{
			"job_controller_jobs_finished_total Indexed CompletionsReached succeeded":         1,
			"job_controller_jobs_by_external_controller_total example.com/other":              1,
			"job_controller_job_pods_finished_total Indexed succeeded":                        2,
			"job_controller_job_pods_finished_total Indexed failed":                           1,
			"job_controller_job_finished_indexes_total global succeeded":                      2,
			"job_controller_pod_failures_handled_by_failure_policy_total Count":               1,
			"job_controller_job_pods_creation_total new succeeded":                            2,
			"job_controller_job_pods_creation_total recreate_terminating_or_failed succeeded": 1,
			"job_controller_terminated_pods_tracking_finalizer_total add":                     3,
			"job_controller_terminated_pods_tracking_finalizer_total delete":                  3,
		}; !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestSyncMetrics checks what a reconcile is said to have done.
func TestSyncMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		registry := prometheus.NewRegistry()
		p.Config.Registerer = registry
		p.Declare(New)
		p.Start()
		did := func(action string) float64 {
			return counters(t, registry)["job_controller_job_syncs_total "+action+" NonIndexed success"]
		}
		controltest.Create(p, newJob(2, 2, nil))
		settle()
		if did(podsCreated) != 1 || did(podsDeleted) != 0 {
			t.Errorf("got %v", counters(t, registry))
		}
		controltest.Change(p, "default", "work", func(job *batchv1.Job) {
			yes := true
			job.Spec.Suspend, job.Generation = &yes, job.Generation+1
		})
		settle()
		if did(podsDeleted) == 0 {
			t.Errorf("after suspension: got %v", counters(t, registry))
		}
	})
}

// counters returns the values of all counters, by their names and the values of their labels.
func counters(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			name := family.GetName()
			for _, label := range series.GetLabel() {
				name += " " + label.GetValue()
			}
			if series.GetCounter() != nil && strings.HasPrefix(name, "job_controller_") {
				values[name] = series.GetCounter().GetValue()
			}
		}
	}
	return values
}
