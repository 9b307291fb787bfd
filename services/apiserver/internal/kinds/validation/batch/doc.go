// Package batch validates jobs and cron jobs. It expects defaults to be filled in.
package batch
