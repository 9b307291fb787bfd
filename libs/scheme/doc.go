// Package scheme is the table of the kinds that Garboard serves. Each row holds the kind's group,
// version and name, its Go type, resource names, scope and key in etcd. The package also has the
// codecs that encode and decode the kinds.
//
// A kind is one row (see rows.go). The apiserver serves the row, the watch fabric carries it, and
// clients and informers find it by its Go type. Nothing here depends on a service.
package scheme
