// Package cronjob creates the Jobs of CronJobs at their times, as Kubernetes' CronJob controller does
// (kubernetes, pkg/controller/cronjob).
//
// A Job's name follows from its scheduled time. So no time has two Jobs, even if the status could not be
// written after one was created.
package cronjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/controllers/internal/contention"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name    = "cronjob-controller"
	workers = 5
)

// reconciler reconciles CronJobs.
type reconciler struct {
	cronJobs *controller.Objects[*batchv1.CronJob]
	jobs     *controller.Owned[*batchv1.Job, *batchv1.CronJob]
	events   *events.Recorder
	// skew is how late Jobs are created, under Kubernetes' name.
	skew prometheus.Histogram
}

// New declares the CronJob controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{cronJobs: controller.For[*batchv1.CronJob](d), events: d.Events(name)}
	r.skew = metric.Register(d.Registerer, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "cronjob_controller_job_creation_skew_duration_seconds", Help: "Time from when a Job was scheduled until it was created.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	}))
	r.cronJobs.Changed = r.changed
	r.cronJobs.Delay = func(old, now *batchv1.CronJob) time.Duration {
		// A new schedule must not run at once for a time that passed before there was one. One that never fires is
		// reconciled at once, which tells so.
		if schedule, err := parse(spec(now)); err == nil && rescheduled(old, now) {
			return until(now, schedule, time.Now())
		}
		return 0
	}
	r.jobs = controller.OwnedBy[*batchv1.Job](d, r.cronJobs)
	return &controller.Spec{
		Name: name, Queue: "cronjob", Resource: "cronjobs", Workers: workers, Events: r.events,
		For: r.cronJobs, Watches: []controller.Watch{r.jobs}, Reconcile: r.reconcile,
	}
}

// changed reports whether a change asks for a reconcile: one to a schedule that cannot be read does not.
func (r *reconciler) changed(old, now *batchv1.CronJob) bool {
	if !rescheduled(old, now) {
		return true
	}
	if _, err := parse(spec(now)); err != nil {
		r.events.Event(now, corev1.EventTypeWarning, "UnParseableCronJobSchedule", "unparseable schedule for cronjob: %s", now.Spec.Schedule)
		return false
	}
	return true
}

func rescheduled(old, now *batchv1.CronJob) bool {
	a, b := old.Spec.TimeZone, now.Spec.TimeZone
	return old.Spec.Schedule != now.Spec.Schedule || (a == nil) != (b == nil) || a != nil && *a != *b
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	shared, found := r.cronJobs.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	jobs, err := r.jobs.Controlled(shared)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := &pass{reconciler: r, cronJob: shared.DeepCopy(), jobs: jobs, now: time.Now()}
	p.trimHistory(ctx)
	after, err := p.run(ctx)
	if p.changed {
		if _, err := r.cronJobs.Client.UpdateStatus(ctx, p.cronJob, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("writing the status of CronJob %s: %w", key, err)
		}
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("running CronJob %s: %w", key, err)
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// pass is one reconcile of a CronJob.
type pass struct {
	*reconciler
	cronJob *batchv1.CronJob
	jobs    []*batchv1.Job
	now     time.Time
	// changed means that the status has changed.
	changed bool
}

// run brings the status up to date and starts the Job that is due. It returns after what time to look
// again; 0 if only a change asks for it.
func (p *pass) run(ctx context.Context) (time.Duration, error) {
	if err := p.follow(ctx); err != nil {
		return 0, err
	}
	spec := &p.cronJob.Spec
	if p.cronJob.DeletionTimestamp != nil {
		return 0, nil
	}
	if spec.TimeZone != nil {
		if _, err := time.LoadLocation(*spec.TimeZone); err != nil {
			p.warn("UnknownTimeZone", "invalid timeZone: %q: %s", *spec.TimeZone, err)
			return 0, nil
		}
	}
	if spec.Suspend != nil && *spec.Suspend {
		return 0, nil
	}
	return p.schedule(ctx)
}

// schedule starts the Job that is due, if there is one.
func (p *pass) schedule(ctx context.Context) (time.Duration, error) {
	text := p.cronJob.Spec.Schedule
	if strings.Contains(text, "TZ") {
		p.warn("UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", text)
	}
	schedule, err := parse(spec(p.cronJob))
	if err != nil {
		p.warn("UnparseableSchedule", "unparseable schedule: %q : %s", text, err)
		return 0, nil
	}
	m, err := missedBy(p.cronJob, schedule, p.now, true)
	if err != nil {
		p.warn("InvalidSchedule", "invalid schedule: %s : %s", text, err)
		return 0, nil
	}
	if m.last.IsZero() {
		return until(p.cronJob, schedule, p.now), nil
	}
	if m.count > manyMissed {
		p.warn("TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if err := p.start(ctx, m.last); err != nil {
		return 0, err
	}
	return p.next(schedule), nil
}

func (p *pass) next(schedule cron.Schedule) time.Duration { return until(p.cronJob, schedule, p.now) }

// start creates the Job of a time, unless it is too late, or another runs that forbids it.
func (p *pass) start(ctx context.Context, at time.Time) error {
	status := &p.cronJob.Status
	if deadline := p.cronJob.Spec.StartingDeadlineSeconds; deadline != nil && *deadline < int64(farthest/time.Second) &&
		at.Add(time.Duration(*deadline)*time.Second).Before(p.now) {
		p.warn("MissSchedule", "Missed scheduled time to start a job: %s", at.UTC().Format(time.RFC1123Z))
		return nil
	}
	name := jobName(p.cronJob, at)
	if status.LastScheduleTime.Equal(&metav1.Time{Time: at}) ||
		slices.ContainsFunc(status.Active, func(ref corev1.ObjectReference) bool {
			return ref.Name == name && ref.Namespace == p.cronJob.Namespace
		}) {
		return nil // This time has its Job.
	}
	switch p.cronJob.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if len(status.Active) > 0 {
			p.tell("JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
			return nil
		}
	case batchv1.ReplaceConcurrent:
		if err := p.replace(ctx); err != nil {
			return err
		}
	}
	job, err := p.create(ctx, at)
	if err != nil || job == nil {
		return err
	}
	status.Active = append(status.Active, corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: job.Namespace, Name: job.Name,
		UID: job.UID, ResourceVersion: job.ResourceVersion,
	})
	status.LastScheduleTime, p.changed = &metav1.Time{Time: at}, true
	return nil
}

// replace deletes the Jobs that still run.
func (p *pass) replace(ctx context.Context) error {
	for _, ref := range slices.Clone(p.cronJob.Status.Active) {
		job, err := p.reconciler.jobs.Client.Get(ctx, ref.Namespace, ref.Name, metav1.GetOptions{})
		if err != nil {
			p.warn("FailedGet", "Get job: %v", err)
			return fmt.Errorf("reading the Job %s that is to be replaced: %w", ref.Name, err)
		}
		if err := p.delete(ctx, job); err != nil {
			return fmt.Errorf("could not replace job %s/%s: %w", job.Namespace, job.Name, err)
		}
	}
	return nil
}

// create creates the Job of a time; nil if there is nothing to add to the status.
func (p *pass) create(ctx context.Context, at time.Time) (*batchv1.Job, error) {
	jobs, wanted := p.reconciler.jobs.Client, newJob(p.cronJob, at, p.cronJobs.Client.Kind().GroupVersionKind)
	job, err := jobs.Create(ctx, wanted, metav1.CreateOptions{})
	switch {
	case err == nil:
		p.tell("SuccessfulCreate", "Created job %v", job.Name)
		p.skew.Observe(job.CreationTimestamp.Sub(at).Seconds())
		return job, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), contention.IsSlowed(err):
		return nil, err
	case apierrors.IsAlreadyExists(err):
		job, err := jobs.Get(ctx, wanted.Namespace, wanted.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the Job %s that exists: %w", wanted.Name, err)
		}
		if !metav1.IsControlledBy(job, p.cronJob) || active(p.cronJob, job.UID) {
			return nil, nil
		}
		return job, nil // It was created before, but the status could not be written.
	default:
		p.warn("FailedCreate", "Error creating job: %v", err)
		return nil, fmt.Errorf("creating the Job %s: %w", wanted.Name, err)
	}
}

// errBehind says that the cache does not show the CronJob's last status yet.
var errBehind = errors.New("the cached status is older than the Jobs")

// follow takes over into the status what has become of the Jobs.
func (p *pass) follow(ctx context.Context) error {
	exist := map[types.UID]bool{}
	for _, job := range p.jobs {
		exist[job.UID] = true
		condition, isActive := ended(job), active(p.cronJob, job.UID)
		switch {
		case condition == "" && !isActive:
			fresh, err := p.cronJobs.Client.Get(ctx, p.cronJob.Namespace, p.cronJob.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("reading the CronJob: %w", err)
			}
			if active(fresh, job.UID) {
				return errBehind
			}
			p.warn("UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", job.Name)
		case condition != "" && isActive:
			p.forget(job.UID)
			p.tell("SawCompletedJob", "Saw completed job: %s, condition: %v", job.Name, condition)
		}
		if done, last := job.Status.CompletionTime, p.cronJob.Status.LastSuccessfulTime; condition == batchv1.JobComplete &&
			done != nil && (last == nil || done.After(last.Time)) {
			p.cronJob.Status.LastSuccessfulTime, p.changed = done, true
		}
	}
	for _, ref := range slices.Clone(p.cronJob.Status.Active) {
		if exist[ref.UID] {
			continue
		}
		_, err := p.reconciler.jobs.Client.Get(ctx, ref.Namespace, ref.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			p.tell("MissingJob", "Active job went missing: %v", ref.Name)
			p.forget(ref.UID)
		case err != nil:
			return fmt.Errorf("reading the active Job %s: %w", ref.Name, err)
		}
	}
	return nil
}

// forget removes a Job from those that run.
func (p *pass) forget(uid types.UID) {
	p.cronJob.Status.Active = slices.DeleteFunc(p.cronJob.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
	p.changed = true
}

func (p *pass) tell(reason, format string, args ...any) {
	p.events.Event(p.cronJob, corev1.EventTypeNormal, reason, format, args...)
}

func (p *pass) warn(reason, format string, args ...any) {
	p.events.Event(p.cronJob, corev1.EventTypeWarning, reason, format, args...)
}
