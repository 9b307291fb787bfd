// Package election elects one of the processes that use an etcd cluster, by keys in it with leases.
// A candidate that learns faster than by its lease that the leader is gone deposes it.
package election
