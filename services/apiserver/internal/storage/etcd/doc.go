// Package etcd connects to one etcd cluster, and does what concerns a cluster as a whole: it
// compacts it, reports its state, copies it, and converts its errors to the API's. What the keys
// mean is known to storage/store, whose only door to etcd this is.
package etcd
