// Package managedfields keeps the record of who owns which fields of an object, its
// metadata.managedFields, and merges into an object what an owner wants of it (server-side
// apply). The rules are Kubernetes' and the merging its library's; here is what the library must
// know: the fields of the served kinds, how their versions are converted, and which fields a
// resource does not let its writers change.
package managedfields
