// Package feed keeps the current objects of every stored kind and the window of their latest
// changes, as etcd reports them. It is the watch cache of the apiserver: HTTP lists and watches,
// the publisher and the responder are served from it.
//
// A feed knows exactly what happened in (W, S]. W is the start of its window; S is the etcd
// revision up to which it has heard everything. S never stops inside a revision. If the feed cannot
// vouch for something, it raises W; readers then need a fresh list, but correctness is never lost.
package feed
