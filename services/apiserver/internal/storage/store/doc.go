// Package store keeps API objects in etcd, under the keys and in the encoding that kube-apiserver
// uses, so that either can be started on the other's data. It reaches etcd through storage/etcd.
//
// Every write is a transaction guarded by the revision it is based on; there is no plain put and no
// plain delete. An object's resourceVersion is the etcd revision of its last change; it is never
// stored.
//
// Besides objects, the store provides what the watch fabric needs from etcd: event streams of whole
// revisions (Follow), consistent scans at old revisions (Scan), the identity of this etcd's history
// (History) and, through storage/election, leadership (Campaign).
package store
