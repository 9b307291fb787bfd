// Package coordination defines the kind of coordination.k8s.io, the Lease.
package coordination
