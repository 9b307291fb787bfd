// Package autoscaling validates the objects that set a workload's number of pods. It expects
// defaults to be filled in.
package autoscaling
