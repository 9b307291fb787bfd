// Package resource defines the kinds of resource.k8s.io: devices, and claims of them.
package resource
