// Package cron reads schedules in the form that cron made usual, as CronJobs have them, and tells
// when they are next due. What is accepted, and in which words the rest is refused, is as in
// Kubernetes, whose users know it: five fields (minute, hour, day of the month, month, day of the
// week), each a list of numbers, names, ranges and steps; or one of the descriptors @yearly,
// @annually, @monthly, @weekly, @daily, @midnight, @hourly and "@every DURATION"; either of them
// after "TZ=ZONE " or "CRON_TZ=ZONE " if it is meant for a time zone.
//
// Unlike there, a list without elements (",") and a range that begins with a star ("*-5") are
// refused.
package cron
