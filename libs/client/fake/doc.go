// Package fake stores API objects in memory and answers a client's calls as an apiserver does. It
// implements rising resourceVersions, conflicts, generated names, finalizers and graceful deletion,
// the split between spec and status, selectors, and watches that start at any revision.
//
// It is for tests of packages that use package client. It does no validation, defaulting, admission
// or authorization, and it leaves out the kinds that show another kind's objects (events.k8s.io).
// Unsupported calls fail with a clear error. It takes the time from the time package, so that it
// works inside a testing/synctest bubble.
package fake
