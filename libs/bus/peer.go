package bus

import (
	"strings"
)

// PeerInbox returns an inbox of this connection at which only the apiservers and the owner of inbox
// may publish. It lies below unique, one token, and ends with last, one token.
func (c *Conn) PeerInbox(inbox, unique, last string) string {
	return inboxFor(c.inbox, inbox, unique) + "." + last
}

// PeerInboxes returns the subject pattern of the inboxes that PeerInbox returns for unique, for all
// peers.
func (c *Conn) PeerInboxes(unique string) string {
	return c.inbox + "." + from + ".*." + unique + ".*"
}

// MaySpeak reports whether subject is an inbox that a connection created for this client by
// PeerInbox.
func (a Client) MaySpeak(subject string) bool {
	tokens := strings.Split(subject, ".")
	return IsInbox(subject) && len(tokens) == 6 && tokens[2] == from && tokens[3] == a.Inbox && a.Inbox != ""
}

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
