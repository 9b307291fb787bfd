// Package clientgo feeds programs written with client-go or controller-runtime from the watch
// fabric. A program needs only one new line:
//
//	config, err = clientgo.Wrap(ctx, config, conn)
//
// For every client created from that configuration, lists and watches of served resources are then
// answered in the process. They come from views that follow NATS, one for each resource and
// namespace (or node, or name), shared by all requests. The adapter applies label and field
// selectors itself. Everything else goes to the apiserver over HTTP, as before: writes, reads of
// single objects, tables, pages, lists at an exact version, resources that are not served, custom
// resources in a version that etcd does not hold, and whatever cannot be answered exactly as
// Kubernetes documents it. While NATS is away, lists and
// watches that must be as new as etcd go to the apiserver too.
//
// # What the answers mean
//
// Answers mean what Kubernetes documents ("API Concepts"). A list without resourceVersion is as new
// as etcd was at the time of the request; "0" is whatever is cached; N is at least N. A watch from
// N has every change after N, or goes to the apiserver, which may answer 410. Watches begin with
// initial events when asked to, have bookmarks, and end after timeoutSeconds. When the fabric
// itself had to read a view as a whole, because it missed too much, watches end with 410 Expired,
// as they do at an apiserver, and the client lists again.
//
// One guarantee is weaker than over HTTP: after a gap in the messages from NATS, a watch may show
// only an object's newest state, and leave out states in between. An object that was deleted and
// created again is always shown as deleted first.
//
// # Authorization
//
// Before it answers, the adapter asks the apiserver whether the user is allowed to, with a
// SelfSubjectAccessReview under the request's own identity, and caches a permission for a minute.
// The requests of a user without permission get the apiserver's own refusal.
package clientgo
