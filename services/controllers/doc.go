// Package controllers is the service that drives the current state towards the desired one:
// Deployments, ReplicaSets, namespaces, ServiceAccounts, the root certificate, owners and their
// dependents, the node lifecycle, quotas, disruption budgets, aggregated roles, bootstrap tokens
// and certificate requests.
//
// Any number of replicas may run. One leads, by the Lease kube-system/kube-controller-manager, and
// runs all controllers. The others keep their informers up to date, so that one of them can take
// over at once when the leader is gone.
package controllers
