// Package scheduling defines the kind of scheduling.k8s.io, the PriorityClass.
package scheduling
