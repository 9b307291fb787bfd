// Package scheduler is the service that assigns pods to nodes.
//
// It follows pods, nodes, namespaces, storage, and the objects that say which pods belong together.
// One of its replicas, elected by the Lease kube-system/kube-scheduler, takes the next waiting pod
// (queue) and a snapshot of the cluster (clusterview). It chooses a node by Kubernetes' filters and
// scores (placement), assumes the pod there at once, and binds it through the API (binding). A pod
// that fits nowhere gets the condition PodScheduled and an Event FailedScheduling, in
// kube-scheduler's words. The scheduler retries it when something changes that may help.
//
// Preemption and dynamic resource allocation are not implemented; a pod that needs one of them is told
// so in these words.
package scheduler
