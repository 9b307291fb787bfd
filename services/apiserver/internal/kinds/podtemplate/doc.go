// Package podtemplate sets the defaults of pods and of the pod templates of workloads, and returns Warnings about
// them.
package podtemplate
