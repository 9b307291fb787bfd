// Package apps defines the kinds of apps, and the ReplicationController, which is their like: workloads of pods that
// run until they are deleted.
package apps
