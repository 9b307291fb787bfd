package chain

import (
	"slices"

	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/authn"
	"github.com/garboard/garboard/services/apiserver/internal/authz"
)

// retryAfter is the seconds after which a client that was held back may come again.
const retryAfter = 1

// Limits bound the requests in work at a time, those that last left out; no bound if not
// positive.
type Limits struct{ Reads, Writes int }

// places are those for requests in work; a nil channel has as many as are wanted.
type places struct{ reads, writes chan struct{} }

func newPlaces(limits Limits) places {
	var p places
	if limits.Reads > 0 {
		p.reads = make(chan struct{}, limits.Reads)
	}
	if limits.Writes > 0 {
		p.writes = make(chan struct{}, limits.Writes)
	}
	return p
}

// take takes a place; false if there is none. Administrators are served without one, so that
// they can help a server that is overrun.
func (p places) take(a authz.Attributes, user authn.User, long bool) (leave func(), ok bool) {
	room := p.writes
	if isRead(a) {
		room = p.reads
	}
	if long || room == nil {
		return func() {}, true
	}
	select {
	case room <- struct{}{}:
		return func() { <-room }, true
	default:
		return func() {}, slices.Contains(user.Groups, authn.GroupMasters)
	}
}

func isRead(a authz.Attributes) bool {
	return a.Verb == "get" || a.Verb == "list" || a.Verb == "watch" || a.Verb == "head"
}

// isLong says whether a request is one of those that last: kube-apiserver's rule, and a snapshot.
func isLong(a authz.Attributes) bool {
	if !a.IsResource() {
		return a.Path == snapshot.Path
	}
	return a.Verb == "watch" || a.Verb == "proxy" ||
		slices.Contains([]string{"attach", "exec", "proxy", "log", "portforward"}, a.Subresource)
}
