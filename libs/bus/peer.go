package bus

import (
	"strings"
)

// PeerInbox is an inbox of this connection at which only the owner of another inbox may speak,
// and the apiservers. It is below unique, one token, and ends with last, one token.
func (c *Conn) PeerInbox(inbox, unique, last string) string {
	return inboxFor(c.inbox, inbox, unique) + "." + last
}

// PeerInboxes covers what PeerInbox makes with unique, whoever the peer is.
func (c *Conn) PeerInboxes(unique string) string {
	return c.inbox + "." + from + ".*." + unique + ".*"
}

// MaySpeak says whether subject is an inbox that somebody made by PeerInbox for this asker.
func (a Asker) MaySpeak(subject string) bool {
	tokens := strings.Split(subject, ".")
	return IsInbox(subject) && len(tokens) == 6 && tokens[2] == from && tokens[3] == a.Inbox && a.Inbox != ""
}

// Reconnects is how often the connection was lost and came back: what was published or
// subscribed before such a change may have been lost.
func (c *Conn) Reconnects() uint64 { return c.nc.Stats().Reconnects }

// Drain ends the interest, but the handler still gets the messages that are on their way. Done
// is closed when it has had them.
func (s *Subscription) Drain() {
	s.conn.mu.Lock()
	subs := s.subs
	s.conn.mu.Unlock()
	for _, sub := range subs {
		if err := sub.Drain(); err != nil {
			s.Unsubscribe() // There is no server: nothing is on its way.
			return
		}
	}
}
