// Package registry holds the operations on API objects, the same for every kind: get, list, watch,
// create, update and delete. A kind's additions to them are in its strategy (package strategy). The
// registry stands between the HTTP layer, which knows requests, and the store and feed, which know
// etcd.
//
// Objects that Get, List, Watch and the writes return may be shared with the watch cache: they are
// read-only.
package registry
