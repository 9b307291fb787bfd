package cron

import (
	"time"
	// Schedules name time zones, and the images that services run in bring no database of them.
	_ "time/tzdata"
)

// horizon is how many years Next looks ahead: leap days are at most eight years apart.
const horizon = 9

// Schedule says when something is due. The zero value is never due.
type Schedule struct {
	minutes, hours, days, months, weekdays field
	every                                  time.Duration
	zone                                   *time.Location
}

// Zone is the time zone that the schedule itself names; nil when it names none.
func (s Schedule) Zone() *time.Location { return s.zone }

// Next is the first time after the given one at which the schedule is due, in the same location;
// the zero time when there is none, as for the 30th of February. Fields are compared with the
// clock of the schedule's own zone, else of after's location. What is due within an hour that a
// change to summer time skips is not due that day; what is due within one that is repeated is due
// twice.
func (s Schedule) Next(after time.Time) time.Time {
	if s.every > 0 {
		return after.Add(s.every - time.Duration(after.Nanosecond()))
	}
	t := after
	if s.zone != nil {
		t = after.In(s.zone)
	}
	t = t.Truncate(time.Second).Add(time.Minute - time.Duration(t.Second())*time.Second)
	for limit := t.Year() + horizon; t.Year() < limit; {
		var next time.Time
		switch {
		case !s.months.has(int(t.Month())):
			next = startOfDay(t.Year(), t.Month()+1, 1, t.Location())
		case !s.dueOn(t):
			next = startOfDay(t.Year(), t.Month(), t.Day()+1, t.Location())
		case !s.hours.has(t.Hour()):
			next = t.Add(time.Hour - time.Duration(t.Minute())*time.Minute)
		case !s.minutes.has(t.Minute()):
			next = t.Add(time.Minute)
		default:
			return t.In(after.Location())
		}
		if !next.After(t) {
			next = t.Add(time.Minute) // The clock was set back by part of an hour.
		}
		t = next
	}
	return time.Time{}
}

// dueOn says whether the schedule is due on the day of t. When both the day of the month and
// that of the week are limited, either is enough, as cron has always had it.
func (s Schedule) dueOn(t time.Time) bool {
	day, weekday := s.days.has(t.Day()), s.weekdays.has(int(t.Weekday()))
	if s.days.star || s.weekdays.star {
		return day && weekday
	}
	return day || weekday
}

// startOfDay is the first moment of a day, which is not midnight where the clock skips that.
func startOfDay(year int, month time.Month, day int, location *time.Location) time.Time {
	noon := time.Date(year, month, day, 12, 0, 0, 0, location)
	t := time.Date(year, month, day, 0, 0, 0, 0, location)
	for t.Day() != noon.Day() {
		t = t.Add(time.Hour)
	}
	return t
}

// field is a set of numbers below 64.
type field struct {
	bits uint64
	// star says that the field does not limit anything.
	star bool
}

func (f field) has(n int) bool { return f.bits&(1<<n) != 0 }
