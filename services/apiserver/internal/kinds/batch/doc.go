// Package batch defines the kinds of batch: Jobs and CronJobs.
package batch
