// Package feed keeps, for every stored kind, the present objects and the window of their
// latest changes as etcd tells them: the watch cache of the apiserver, from which HTTP lists
// and watches, the publisher and the responder are served.
//
// A feed knows exactly what happened in (W, S]: W is the start of its window, S etcd's
// revision up to which it has heard everything. S only ever stands between whole revisions.
// Whatever the feed cannot vouch for makes it raise W; that costs readers a fresh list, never
// correctness.
package feed
