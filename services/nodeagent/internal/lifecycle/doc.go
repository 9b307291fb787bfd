// Package lifecycle takes the steps of a pod's life on the node: it is the podworkers.Syncer.
//
// Sync goes in the order of the kubelet: status, may it run, is the network ready,
// directories, volumes, then what compute.Compute decided: kill, sandbox, init containers,
// containers. Whatever goes wrong becomes an Event and a reason in the pod's status, and is
// tried again.
package lifecycle
