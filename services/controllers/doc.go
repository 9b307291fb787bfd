// Package controllers is the service that drives the current state towards the desired one:
// Deployments, ReplicaSets, namespaces, ServiceAccounts, the root certificate, owners and
// their dependents, the life of nodes, quotas, disruption budgets, aggregated roles, bootstrap
// tokens and requests for certificates.
//
// Any number of replicas may run. One leads, by the Lease kube-system/kube-controller-manager,
// and runs all controllers; the others keep their informers up to date, so that one of them
// goes on at once when the leader is gone.
package controllers
