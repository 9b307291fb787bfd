// Package clientgo feeds programs that are written with client-go or controller-runtime from
// the watch fabric, without a change to them but one line:
//
//	config, err = clientgo.Wrap(ctx, config, conn)
//
// Every client that is made from the configuration then has its lists and watches of served
// resources answered in the process: from views that follow NATS, one for each resource and
// namespace (or node, or name), shared by all that ask. Label and field selectors are applied
// here. Everything else goes to the apiserver over HTTP, as before: writes, reads of single
// objects, tables, pages, lists at an exact version, resources that are not served, and
// whatever cannot be answered exactly as Kubernetes documents it. While NATS is away, so do
// lists and watches that must be as new as etcd.
//
// # What the answers mean
//
// They are those that Kubernetes documents ("API Concepts"). A list without resourceVersion is as
// new as etcd was when it was asked for; "0" is what there is; N is at least N. A watch from N
// has every change after N, or is answered by the apiserver, be it with 410. Watches begin with
// initial events when asked to, have bookmarks, and end after timeoutSeconds. When the fabric
// itself had to read a view as a whole, since too much was missed, watches end with 410 Expired,
// as they do at an apiserver, and the client lists again.
//
// One thing is less than over HTTP: after a gap in what NATS brought, a watch may show an object's newest
// state only, and leave out those in between. An object that was deleted and created again is
// always shown as deleted first.
//
// # Who may read
//
// Before it answers, the adapter asks the apiserver whether the user may do that, with a
// SelfSubjectAccessReview under the request's own identity, and remembers that for a minute.
// Who may not gets the apiserver's own refusal.
package clientgo
