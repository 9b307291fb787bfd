// Package scheme is the table of the kinds that Garboard serves. For each kind it holds the group,
// version and kind, the Go type, the resource names, the scope and the key in etcd, together with
// the codecs that encode and decode it.
//
// A kind is one row (see rows.go). The apiserver serves the row, the watch fabric carries it, and
// clients and informers find it by its Go type. Nothing here depends on a service.
package scheme
