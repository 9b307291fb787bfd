package cronjob

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// A bubble begins at midnight UTC, 2000-01-01, a Saturday. This is its minute since 1970.
const midnight = 946684800 / 60

func hourly(change func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	three, one := int32(3), int32(1)
	cronJob := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "report", UID: "uid-report"},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 * * * *", ConcurrencyPolicy: batchv1.AllowConcurrent,
			SuccessfulJobsHistoryLimit: &three, FailedJobsHistoryLimit: &one,
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "x"}, Annotations: map[string]string{"a": "y"}},
				Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}},
			},
		},
	}
	if change != nil {
		change(&cronJob.Spec)
	}
	return cronJob
}

// plane runs the controller, inside a bubble.
func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch update batch/cronjobs", "get list watch create update delete patch batch/jobs", "update batch/cronjobs/status", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

func jobs(p *controltest.Plane) []string {
	var names []string
	for _, job := range controltest.List[*batchv1.Job](p) {
		names = append(names, job.Name)
	}
	slices.Sort(names)
	return names
}

// at returns the name of the Job of a minute after midnight.
func at(minute int) string { return fmt.Sprintf("report-%d", midnight+minute) }

func status(p *controltest.Plane) batchv1.CronJobStatus {
	return controltest.Get[*batchv1.CronJob](p, "default", "report").Status
}

// finish ends a Job as of now.
func finish(p *controltest.Plane, name string, condition batchv1.JobConditionType) {
	controltest.SetStatus(p, "default", name, func(job *batchv1.Job) {
		now := metav1.Now()
		job.Status.StartTime = &now
		if condition == batchv1.JobComplete {
			job.Status.CompletionTime = &now
		}
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
	})
	time.Sleep(time.Second)
}

func wantEvents(t *testing.T, p *controltest.Plane, reason string, messages ...string) {
	t.Helper()
	got := p.Events(reason)
	slices.Sort(got)
	if !slices.Equal(slices.Compact(got), messages) {
		t.Errorf("got events %s %q, want %q", reason, got, messages)
	}
}

func TestRunsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		time.Sleep(30 * time.Minute)
		cronJob := controltest.Create(p, hourly(nil))
		time.Sleep(29 * time.Minute)
		if got := jobs(p); len(got) != 0 {
			t.Errorf("before the hour: got %v", got)
		}
		time.Sleep(2 * time.Minute)
		if got := jobs(p); !slices.Equal(got, []string{at(60)}) {
			t.Fatalf("got jobs %v", got)
		}
		job := controltest.Get[*batchv1.Job](p, "default", at(60))
		if !metav1.IsControlledBy(job, cronJob) || job.Labels["l"] != "x" || job.Annotations["a"] != "y" ||
			job.Annotations[batchv1.CronJobScheduledTimestampAnnotation] != "2000-01-01T01:00:00Z" || len(job.Spec.Template.Spec.Containers) != 1 {
			t.Errorf("got job %+v", job)
		}
		got := status(p)
		if len(got.Active) != 1 || got.Active[0].Name != at(60) || got.Active[0].UID != job.UID || got.Active[0].Kind != "Job" ||
			got.Active[0].APIVersion != "batch/v1" || got.LastScheduleTime.Unix() != (midnight+60)*60 || got.LastSuccessfulTime != nil {
			t.Errorf("got status %+v", got)
		}
		finish(p, at(60), batchv1.JobComplete)
		if got := status(p); len(got.Active) != 0 || time.Since(got.LastSuccessfulTime.Time) > time.Minute {
			t.Errorf("after its end: got status %+v", got)
		}
		wantEvents(t, p, "SuccessfulCreate", "Created job "+at(60))
		wantEvents(t, p, "SawCompletedJob", "Saw completed job: "+at(60)+", condition: Complete")
		time.Sleep(time.Hour)
		if got := jobs(p); !slices.Equal(got, []string{at(60), at(120)}) {
			t.Errorf("an hour later: got jobs %v", got)
		}
	})
}

func TestTimeZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		zone := "America/New_York" // 19:00 of the day before
		controltest.Create(p, hourly(func(s *batchv1.CronJobSpec) { s.TimeZone, s.Schedule = &zone, "30 20 * * *" }))
		time.Sleep(89 * time.Minute)
		if got := jobs(p); len(got) != 0 {
			t.Errorf("before the time: got %v", got)
		}
		time.Sleep(2 * time.Minute)
		job := controltest.Get[*batchv1.Job](p, "default", at(90))
		if got := job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; got != "1999-12-31T20:30:00-05:00" {
			t.Errorf("got timestamp %s", got)
		}
	})
}

func TestConcurrency(t *testing.T) {
	for policy, want := range map[batchv1.ConcurrencyPolicy]struct {
		jobs    []string
		active  int
		reason  string
		message string
	}{
		batchv1.AllowConcurrent:   {[]string{at(60), at(120)}, 2, "SuccessfulCreate", ""},
		batchv1.ForbidConcurrent:  {[]string{at(60)}, 1, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid"},
		batchv1.ReplaceConcurrent: {[]string{at(120)}, 1, "SuccessfulDelete", "Deleted job " + at(60)},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t)
				controltest.Create(p, hourly(func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = policy }))
				time.Sleep(121 * time.Minute)
				if got := jobs(p); !slices.Equal(got, want.jobs) || len(status(p).Active) != want.active {
					t.Errorf("got jobs %v, status %+v", got, status(p))
				}
				if want.message != "" {
					wantEvents(t, p, want.reason, want.message)
				}
			})
		})
	}
}

// TestForbiddenRunsLater checks that what was forbidden runs once the other has ended, unless it is too
// late then.
func TestForbiddenRunsLater(t *testing.T) {
	for _, deadline := range []int64{0, 60} {
		synctest.Test(t, func(t *testing.T) {
			p := plane(t)
			controltest.Create(p, hourly(func(s *batchv1.CronJobSpec) {
				s.ConcurrencyPolicy = batchv1.ForbidConcurrent
				if deadline > 0 {
					s.StartingDeadlineSeconds = &deadline
				}
			}))
			time.Sleep(130 * time.Minute)
			finish(p, at(60), batchv1.JobComplete)
			want := []string{at(60), at(120)}
			if deadline > 0 {
				want = want[:1]
			}
			if got := jobs(p); !slices.Equal(got, want) {
				t.Errorf("deadline %d: got jobs %v, want %v", deadline, got, want)
			}
		})
	}
}

func TestMissedTimes(t *testing.T) {
	for name, tt := range map[string]struct {
		schedule string
		missed   time.Duration
		deadline int64
		jobs     int
		event    bool
	}{
		"some":                 {"0 * * * *", 5 * time.Hour, 0, 1, false},
		"too many":             {"* * * * *", 5 * time.Hour, 0, 1, true},
		"many, but a deadline": {"* * * * *", 5 * time.Hour, 300, 1, false},
		"too late":             {"0 * * * *", 5*time.Hour + 20*time.Minute, 300, 0, false},
		"for years":            {"0 0 1 1 *", 40 * 365 * 24 * time.Hour, 0, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cronJob := hourly(func(s *batchv1.CronJobSpec) {
					s.Schedule = tt.schedule
					if tt.deadline > 0 {
						s.StartingDeadlineSeconds = &tt.deadline
					}
				})
				cronJob.Status.LastScheduleTime = &metav1.Time{Time: time.Now()}
				time.Sleep(tt.missed + time.Second)
				p := plane(t)
				p.Load(cronJob)
				time.Sleep(10 * time.Second)
				if got := jobs(p); len(got) != tt.jobs {
					t.Errorf("got jobs %v", got)
				}
				var want []string
				if tt.event {
					want = []string{"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"}
				}
				wantEvents(t, p, "TooManyMissedTimes", want...)
			})
		})
	}
}

// TestWhatNeverRuns checks that an Event says why, and that there are few of them.
func TestWhatNeverRuns(t *testing.T) {
	zone := "Mars/Olympus"
	yes := true
	for name, tt := range map[string]struct {
		change          func(*batchv1.CronJobSpec)
		reason, message string
	}{
		"suspended":          {func(s *batchv1.CronJobSpec) { s.Suspend = &yes }, "", ""},
		"unparseable":        {func(s *batchv1.CronJobSpec) { s.Schedule = "soon" }, "UnparseableSchedule", `unparseable schedule: "soon" : `},
		"makes others panic": {func(s *batchv1.CronJobSpec) { s.Schedule = "TZ=UTC" }, "UnparseableSchedule", `unparseable schedule: "TZ=UTC" : `},
		"unknown zone":       {func(s *batchv1.CronJobSpec) { s.TimeZone = &zone }, "UnknownTimeZone", `invalid timeZone: "Mars/Olympus": `},
		"no such day": {func(s *batchv1.CronJobSpec) { s.Schedule = "59 23 31 2 *" }, "InvalidSchedule",
			"invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t)
				controltest.Create(p, hourly(tt.change))
				time.Sleep(3 * time.Hour)
				if got := jobs(p); len(got) != 0 {
					t.Errorf("got jobs %v", got)
				}
				events := controltest.List[*corev1.Event](p)
				if tt.reason == "" && len(events) > 0 || len(events) > 5 {
					t.Errorf("got %d events", len(events))
				}
				if got := p.Events(tt.reason); tt.reason != "" && (len(got) == 0 || !strings.HasPrefix(got[0], tt.message)) {
					t.Errorf("got events %q", got)
				}
			})
		})
	}
}

// TestAScheduleThatBecomesOneThatNeverFires checks that an Event says so at once.
func TestAScheduleThatBecomesOneThatNeverFires(t *testing.T) {
	for name, suspended := range map[string]bool{"running": false, "suspended": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t)
				controltest.Create(p, hourly(func(s *batchv1.CronJobSpec) { s.Suspend = &suspended }))
				time.Sleep(time.Minute)
				controltest.Change(p, "default", "report", func(c *batchv1.CronJob) { c.Spec.Schedule, c.Spec.Suspend = "0 0 30 2 *", nil })
				time.Sleep(time.Minute)
				wantEvents(t, p, "InvalidSchedule", "invalid schedule: 0 0 30 2 * : time difference between two schedules is less than 1 second")
			})
		})
	}
}

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, hourly(nil))
		time.Sleep(time.Minute)
		for hour := 1; hour <= 7; hour++ {
			time.Sleep(time.Hour)
			end := batchv1.JobComplete
			if hour%3 == 0 {
				end = batchv1.JobFailed
			}
			finish(p, at(60*hour), end)
		}
		if got := jobs(p); !slices.Equal(got, []string{at(240), at(300), at(360), at(420)}) {
			t.Errorf("got jobs %v", got)
		}
	})
}

// TestANewScheduleDoesNotRunAtOnce checks that a time that passed before there was a schedule for it does
// not count.
func TestANewScheduleDoesNotRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, hourly(nil))
		time.Sleep(40 * time.Minute)
		controltest.Change(p, "default", "report", func(c *batchv1.CronJob) { c.Spec.Schedule = "30 * * * *" })
		time.Sleep(10 * time.Minute)
		if got := jobs(p); len(got) != 0 {
			t.Errorf("got jobs %v", got)
		}
		controltest.Change(p, "default", "report", func(c *batchv1.CronJob) { c.Spec.Schedule = "never" })
		time.Sleep(time.Second)
		wantEvents(t, p, "UnParseableCronJobSchedule", "unparseable schedule for cronjob: never")
	})
}

// TestJobsThatTheStatusDoesNotKnow checks what the status says after Jobs come and go unseen.
func TestJobsThatTheStatusDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		cronJob := controltest.Create(p, hourly(nil))
		time.Sleep(61 * time.Minute)
		p.Remove(controltest.Get[*batchv1.Job](p, "default", at(60)))
		time.Sleep(time.Second)
		wantEvents(t, p, "MissingJob", "Active job went missing: "+at(60))
		if got := status(p); len(got.Active) != 0 {
			t.Errorf("got status %+v", got)
		}
		strange := newJob(cronJob, time.Now(), batchv1.SchemeGroupVersion.WithKind("CronJob"))
		strange.Name = "strange"
		controltest.Create(p, strange)
		time.Sleep(time.Second)
		wantEvents(t, p, "UnexpectedJob", "Saw a job that the controller did not create or forgot: strange")
	})
}

// TestASecondTermCreatesNoSecondJob checks that a time whose Job was created, but not noted in the status,
// has that one only.
func TestASecondTermCreatesNoSecondJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		runner := p.Runner(New)
		p.Start()
		controltest.Create(p, hourly(nil))
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 61*time.Minute)
			if err := runner.Run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			controltest.SetStatus(p, "default", "report", func(c *batchv1.CronJob) { c.Status = batchv1.CronJobStatus{} })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := runner.Run(ctx); err != nil {
			t.Error(err)
		}
		if got := jobs(p); !slices.Equal(got, []string{at(60), at(120)}) {
			t.Errorf("got jobs %v", got)
		}
		if got := status(p); len(got.Active) != 1 || got.Active[0].Name != at(120) || got.LastScheduleTime.Unix() != (midnight+120)*60 {
			t.Errorf("got status %+v", got)
		}
	})
}
