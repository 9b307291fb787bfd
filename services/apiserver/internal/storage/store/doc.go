// Package store keeps API objects in etcd, in the keys and the encoding in which
// kube-apiserver keeps them, so that either may be started on the other's data. It is the
// only package that knows etcd's client.
//
// Every write is a transaction guarded by the revision that it is based on; there is no plain
// put and no plain delete. An object's resourceVersion is the etcd revision of its last
// change; it is never stored.
//
// Beside objects the store keeps what the watch fabric needs of etcd: whole-revision event
// streams (Follow), consistent scans at old revisions (Scan), the identity of this etcd's
// history (History) and leadership (Campaign).
package store
