// Package autoscaling validates what sets the number of a workload's pods. It expects defaults to
// be filled.
package autoscaling
