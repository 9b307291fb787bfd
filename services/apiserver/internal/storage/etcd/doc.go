// Package etcd connects to one etcd cluster, and does what concerns a cluster as a whole: it
// compacts it, reports its state, copies it, and converts its errors to the API's. What the keys
// mean is known to storage/store and storage/election, which use its Client.
package etcd
