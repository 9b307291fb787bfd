// Package pod defines Pods and PodTemplates. What pods share with the templates of workloads is in podtemplate
// and validation/podspec.
package pod
