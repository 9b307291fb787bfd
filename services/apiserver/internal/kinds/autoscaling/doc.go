// Package autoscaling defines the kinds of autoscaling: the HorizontalPodAutoscaler in both versions, which are
// stored as one, and the columns of a Scale.
package autoscaling
