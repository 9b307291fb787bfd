// Package scheduler is the service that gives pods their nodes.
//
// It follows pods, nodes and namespaces on the bus. One of its replicas, elected by the Lease
// kube-system/kube-scheduler, takes the next pod that waits (queue), looks at a picture of the
// cluster (snapshot), chooses a node by Kubernetes' filters and scores (placement), counts the
// pod there at once and binds it through the API (binding). A pod that fits nowhere says so by
// its condition PodScheduled and an Event FailedScheduling, in kube-scheduler's words, and is
// tried again when something changes that may help it.
//
// Not done yet, and said so in these words where a pod asks for it: preemption, dynamic
// resource allocation, volume binding.
package scheduler
