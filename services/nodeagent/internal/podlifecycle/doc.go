// Package podlifecycle performs the steps of a pod's lifecycle on the node: it is the
// podworkers.Syncer.
//
// Sync works in the kubelet's order: status, admission, readiness of the network, directories,
// volumes. Then it performs what podactions.Compute decided: kill, sandbox, ephemeral containers, init
// containers, containers. Every failure becomes an Event and a reason in the pod's status, and is retried.
package podlifecycle
