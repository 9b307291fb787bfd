// Package scheme is the table of the kinds that Garboard serves: for each one its group,
// version and kind, its Go type, its resource names, its scope and the key under which etcd
// keeps it, together with the codecs that read and write it.
//
// A kind is one row (see rows.go). The apiserver serves the row, the watch fabric carries it,
// and clients and informers find it by its Go type. Nothing here depends on a service.
package scheme
