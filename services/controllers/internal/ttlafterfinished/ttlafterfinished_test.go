package ttlafterfinished

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job returns a Job with a time to live, in seconds, unless that is negative.
func job(name string, ttl int32) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if ttl >= 0 {
		j.Spec.TTLSecondsAfterFinished = &ttl
	}
	return j
}

func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch delete batch/jobs")
	p.Declare(New)
	p.Start()
	return p
}

// finish sets the condition that a Job has ended, as of now.
func finish(p *controltest.Plane, name string, condition batchv1.JobConditionType) {
	controltest.SetStatus(p, "default", name, func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	})
}

// exists reports whether a Job is there and is not being deleted.
func exists(p *controltest.Plane, name string) bool {
	for _, j := range controltest.List[*batchv1.Job](p) {
		if j.Name == name && j.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

func TestDeletesJobsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		for _, j := range []*batchv1.Job{job("done", 60), job("failed", 60), job("at-once", 0), job("kept", -1), job("running", 60), job("longest", 2147483647)} {
			controltest.Create(p, j)
		}
		finish(p, "done", batchv1.JobComplete)
		finish(p, "failed", batchv1.JobFailed)
		finish(p, "at-once", batchv1.JobComplete)
		finish(p, "kept", batchv1.JobComplete)
		finish(p, "running", batchv1.JobSuccessCriteriaMet)
		finish(p, "longest", batchv1.JobComplete)
		time.Sleep(50 * time.Second)
		if !exists(p, "done") || !exists(p, "failed") || exists(p, "at-once") {
			t.Error("after 50 s: a Job is there too long, or too short")
		}
		time.Sleep(20 * time.Second)
		if exists(p, "done") || exists(p, "failed") {
			t.Error("after 70 s: a Job is there still")
		}
		time.Sleep(time.Hour)
		for _, name := range []string{"kept", "running", "longest"} {
			if !exists(p, name) {
				t.Errorf("%s is deleted", name)
			}
		}
		for _, call := range p.Writes() {
			if options, ok := call.Options.(*metav1.DeleteOptions); ok && *options.PropagationPolicy != metav1.DeletePropagationForeground {
				t.Errorf("got %+v", call)
			}
		}
	})
}

// TestATimeThatIsProlonged checks that the Job is kept by what the API says, not the cache.
func TestATimeThatIsProlonged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Job", 5*time.Second)
		p.Declare(New)
		p.Start()
		controltest.Create(p, job("a", 60))
		finish(p, "a", batchv1.JobComplete)
		time.Sleep(58 * time.Second)
		controltest.Change(p, "default", "a", func(j *batchv1.Job) { *j.Spec.TTLSecondsAfterFinished = 600 })
		time.Sleep(100 * time.Second)
		if !exists(p, "a") {
			t.Error("the Job is deleted")
		}
		time.Sleep(600 * time.Second)
		if exists(p, "a") {
			t.Error("the Job is there still")
		}
	})
}
