// Package managedfields keeps the record of who owns which fields of an object, its
// metadata.managedFields, and merges into an object what an owner applies (server-side apply). The
// rules are Kubernetes', and its library does the merging. This package supplies what the library
// must know: the fields of the served kinds, how their versions are converted, and which fields a
// resource does not let its writers change.
package managedfields
