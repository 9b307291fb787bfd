package cronjob

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
)

const (
	// padding is how long after a scheduled time it is looked for, so that a clock that is a little
	// behind misses nothing.
	padding = 100 * time.Millisecond
	// manyMissed is from how many missed times on an Event tells of it.
	manyMissed = 100
	// farthest bounds how far back missed times are looked for: the time is in the status, where anybody
	// may have put it.
	farthest = 10 * 365 * 24 * time.Hour
)

// errInterval says that a schedule has no two times.
var errInterval = errors.New("time difference between two schedules is less than 1 second")

// spec returns a CronJob's schedule with its time zone. A zone in the schedule goes first.
func spec(cronJob *batchv1.CronJob) string {
	if zone := cronJob.Spec.TimeZone; zone != nil && !strings.Contains(cronJob.Spec.Schedule, "TZ") {
		if _, err := time.LoadLocation(*zone); err == nil {
			return fmt.Sprintf("TZ=%s %s", *zone, cronJob.Spec.Schedule)
		}
	}
	return cronJob.Spec.Schedule
}

// parse reads a schedule.
func parse(text string) (schedule cron.Schedule, err error) {
	defer func() {
		// The library panics at a time zone that nothing follows.
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	return cron.ParseStandard(text)
}

// missed are the scheduled times that have passed.
type missed struct {
	// since is from when on they were looked for.
	since time.Time
	// last is the latest; the zero time if there is none.
	last time.Time
	// count is about how many there are.
	count int64
}

// missedBy returns the scheduled times that have passed since a CronJob last ran a Job, or else since it
// was created; within limits, only those for which it is not too late.
func missedBy(cronJob *batchv1.CronJob, schedule cron.Schedule, now time.Time, limits bool) (missed, error) {
	m := missed{since: cronJob.CreationTimestamp.Time}
	if last := cronJob.Status.LastScheduleTime; last != nil {
		m.since = last.Time
	}
	if deadline := cronJob.Spec.StartingDeadlineSeconds; limits && deadline != nil && *deadline < int64(farthest/time.Second) {
		m.since = latest(m.since, now.Add(-time.Duration(*deadline)*time.Second))
	}
	m.since = latest(m.since, now.Add(-farthest))
	first := schedule.Next(m.since)
	if now.Before(first) {
		return m, nil
	}
	second := schedule.Next(first)
	if now.Before(second) {
		m.last, m.count = first, 1
		return m, nil
	}
	interval := second.Sub(first).Round(time.Second)
	if interval < time.Second {
		return m, errInterval
	}
	// The first interval stands for all, so that it does not take long however many there are. From a
	// little before that time on, every one is looked at.
	m.count = int64(now.Sub(first)/interval) + 1
	from := first.Add(time.Duration(m.count-2) * interval)
	for at := schedule.Next(from); !at.After(now); at = schedule.Next(at) {
		m.last = at
	}
	return m, nil
}

// until returns after what time the next scheduled time is due; 0 if there is none.
func until(cronJob *batchv1.CronJob, schedule cron.Schedule, now time.Time) time.Duration {
	m, err := missedBy(cronJob, schedule, now, false)
	from := m.last
	switch {
	case err != nil, m.last.IsZero() && m.count > 0:
		from = now
	case m.last.IsZero():
		from = m.since
	}
	next := schedule.Next(from)
	if next.IsZero() {
		return 0
	}
	return max(next.Add(padding).Sub(now), padding)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
