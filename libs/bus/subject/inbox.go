package subject

import (
	"slices"
	"strings"
)

// inboxRoot is the prefix of every reply subject. Responders answer nowhere else, so that no client
// can make them publish at a subject of its choice.
const inboxRoot = "_INBOX."

const (
	// from marks the part of a client's inbox that is reserved for one peer.
	from = "from"
	// nodePeer begins the token of a node in such an inbox.
	nodePeer = "~node-"
)

// Inbox returns the prefix of all inboxes of a client, without the last dot. The argument is the
// part of its inboxes that is unique to it.
func Inbox(unique string) string { return inboxRoot + unique }

// IsInbox reports whether subject is an inbox. A responder must answer at no other subject, since
// it has rights that the client lacks.
func IsInbox(subject string) bool {
	rest, ok := strings.CutPrefix(subject, inboxRoot)
	if !ok || strings.ContainsAny(rest, "*> \t\r\n") {
		return false
	}
	tokens := strings.Split(rest, ".")
	return len(tokens) >= 2 && !slices.Contains(tokens, "")
}

// InboxFor returns an inbox below own at which only the apiservers and one peer may publish. The
// peer is the owner of the inbox subject, or the agent of the node that the subject names.
func InboxFor(own, subject, unique string) string {
	peer := ""
	if rest, ok := strings.CutPrefix(subject, nodeRoot); ok {
		node, _, _ := strings.Cut(rest, ".")
		peer = nodePeer + node
	} else if rest, ok := strings.CutPrefix(subject, inboxRoot); ok {
		peer, _, _ = strings.Cut(rest, ".")
	}
	if peer == "" {
		return own + "." + unique
	}
	return own + "." + from + "." + peer + "." + unique
}

// IsInboxFor reports whether InboxFor created subject for the owner of the inboxes below own. That
// owner may publish there, whichever client named the subject to it.
func IsInboxFor(subject, own string) bool {
	tokens := strings.Split(subject, ".")
	return IsInbox(subject) && len(tokens) == 5 && tokens[2] == from && tokens[3] == strings.TrimPrefix(own, inboxRoot)
}

// PeerInboxes returns the subject pattern of the inboxes below own that InboxFor returns for unique
// and one more token, for all peers.
func PeerInboxes(own, unique string) string { return own + "." + from + ".*." + unique + ".*" }

// AnswersNode reports whether subject is an inbox that InboxFor returned for answers of the agent of a node,
// or one below it.
func AnswersNode(subject, node string) bool {
	tokens := strings.Split(subject, ".")
	return IsInbox(subject) && len(tokens) >= 5 && tokens[2] == from && tokens[3] == nodePeer+Token(node)
}

// Owns reports whether subject is an inbox of the client. Responders answer at no other subject.
func (c Client) Owns(subject string) bool {
	return c.Inbox != "" && IsInbox(subject) && strings.HasPrefix(subject, inboxRoot+c.Inbox+".")
}

// MaySpeak reports whether subject is an inbox that InboxFor created for this client, followed by
// one more token.
func (c Client) MaySpeak(subject string) bool {
	tokens := strings.Split(subject, ".")
	return IsInbox(subject) && len(tokens) == 6 && tokens[2] == from && tokens[3] == c.Inbox && c.Inbox != ""
}
