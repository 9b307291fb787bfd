// Package allocate gives out what may be held only once: the cluster IPs and node ports of
// services. etcd is the arbiter, in the form in which Kubernetes keeps it: one IPAddress
// object per address in use, and one bitmap of ports, written by guarded transactions. So two
// apiservers never give the same address or port to two services.
//
// What is taken for a service that is then not written is given back at once, or, when the
// apiserver dies in between, by Repair.
package allocate
