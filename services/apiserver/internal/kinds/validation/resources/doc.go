// Package resources knows the names of the resources that containers use and quotas count. Names
// without a slash are Kubernetes' own.
package resources
