// Package allocate hands out what may be held only once: the cluster IPs and node ports of
// services. etcd is the arbiter, in Kubernetes' format: one IPAddress object per address in use,
// and one bitmap of ports, written by guarded transactions. So two apiservers never allocate the
// same address or port to two services.
//
// What was allocated for a service that is then not written is released at once, or by Repair if
// the apiserver dies in between.
package allocate
