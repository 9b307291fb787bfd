package bus

import (
	"github.com/nats-io/nuid"

	"github.com/garboard/garboard/libs/bus/subject"
)

// NewInbox returns a subject for answers to this connection that no other client has.
func (c *Conn) NewInbox() string { return c.inbox + "." + nuid.Next() }

// InboxFor is NewInbox for answers from one peer: only the apiservers may publish there, and the
// owner of the inbox at, or the agent of the node whose subject at is.
func (c *Conn) InboxFor(at string) string { return subject.InboxFor(c.inbox, at, nuid.Next()) }

// MayAnswer reports whether at is an inbox that another connection created by InboxFor for answers
// from this one.
func (c *Conn) MayAnswer(at string) bool { return subject.IsInboxFor(at, c.inbox) }

// PeerInbox returns an inbox of this connection at which only the apiservers and the owner of inbox
// may publish. It lies below unique, one token, and ends with last, one token.
func (c *Conn) PeerInbox(inbox, unique, last string) string {
	return subject.InboxFor(c.inbox, inbox, unique) + "." + last
}

// PeerInboxes returns the subject pattern of the inboxes that PeerInbox returns for unique, for all
// peers.
func (c *Conn) PeerInboxes(unique string) string { return subject.PeerInboxes(c.inbox, unique) }

// Reconnects returns how often the connection was lost and restored. Messages and subscriptions
// from before such a change may be lost.
func (c *Conn) Reconnects() uint64 { return c.nc.Stats().Reconnects }

// Drain ends the subscription, but the handler still receives the messages in flight. Done is
// closed after the last of them.
func (s *Subscription) Drain() {
	s.conn.mu.Lock()
	subs := s.subs
	s.conn.mu.Unlock()
	for _, sub := range subs {
		if err := sub.Drain(); err != nil {
			s.Unsubscribe() // Without a server nothing is in flight.
			return
		}
	}
}
