package bus

import (
	"fmt"
	"slices"
	"strings"
)

// Asker identifies a client by the subject of what it sends. On a bus with identities, NATS
// restricts every client to its own subjects, so no client can speak as another.
type Asker struct {
	// Inbox is the part of the client's inboxes that is unique to it.
	Inbox string
	// Identity is a single token by which the apiservers know the user and, if IdentityAt wrote it,
	// the host from which it connected. It is NoIdentity on a bus without identities.
	Identity string
}

// IdentityAt returns the identity of a client that connects from host, as NATS sees the host. The
// host may be empty.
func IdentityAt(identity, host string) string {
	if host == "" {
		return identity
	}
	return identity + nothing + Token(host)
}

// Host returns the host from which the client connected to NATS, or "" if it is not known. NATS
// restricts each client to its host as it does to its identity.
func (a Asker) Host() string {
	_, token, _ := strings.Cut(a.Identity, nothing)
	if token == "" {
		return ""
	}
	host, err := ParseToken(token)
	if err != nil {
		return ""
	}
	return host
}

// NoIdentity is the identity of every client on a bus without identities.
const NoIdentity = nothing

// Subjects that clients publish at.
const (
	whoRoot     = "gb.who."
	apiRoot     = "gb.api."
	historyRoot = "gb.history."
	reportRoot  = "gb.report."
	// reports is where an apiserver asks every process for its report.
	reports = "gb.reports"
	// traces is where apiservers announce traced writes.
	traces = "gb.trace"
	// from marks the part of a client's inbox that is reserved for one peer.
	from = "from"
	// nodePeer begins the token of a node in such an inbox.
	nodePeer = "~node-"
)

// User returns the same value for all clients that belong to one user, wherever they run. On a bus
// without identities each client counts as a user of its own.
func (a Asker) User() string {
	if a.Identity == NoIdentity {
		return a.Inbox
	}
	user, _, _ := strings.Cut(a.Identity, nothing)
	return user
}

func (a Asker) tokens() string { return a.Inbox + "." + a.Identity }

// Owns reports whether subject is an inbox of the client. Responders answer at no other subject.
func (a Asker) Owns(subject string) bool {
	return a.Inbox != "" && IsInbox(subject) && strings.HasPrefix(subject, inboxRoot+a.Inbox+".")
}

// Ask returns the subject of this client's asks about a resource.
func (a Asker) Ask(group, resource string) string {
	return askRoot + a.tokens() + "." + resourceTokens(group, resource)
}

// History returns the subject at which this client asks for the history of a resource.
func (a Asker) History(group, resource string) string {
	return historyRoot + a.tokens() + "." + resourceTokens(group, resource)
}

// API returns the subject of this client's requests to the apiservers.
func (a Asker) API() string { return apiRoot + a.tokens() }

// Report returns the subject at which this client answers one request for reports; question is the
// token that distinguishes that request from others.
func (a Asker) Report(question string) string { return reportRoot + a.tokens() + "." + question }

// ReportsSubject returns the subject at which an apiserver asks every process for its report.
func ReportsSubject() string { return reports }

// TraceSubject returns the subject at which an apiserver announces that a traced write begins.
func TraceSubject() string { return traces }

// AllReportSubjects returns the subject pattern of all answers to one request for reports.
func AllReportSubjects(question string) string { return reportRoot + "*.*." + question }

// AskSubject returns the subject pattern of all clients' asks about a resource.
func AskSubject(group, resource string) string {
	return askRoot + "*.*." + resourceTokens(group, resource)
}

// AllAskSubjects returns the subject pattern of the asks about all resources.
func AllAskSubjects() string { return askRoot + ">" }

// AllHistorySubjects returns the subject pattern of the asks for the history of all resources.
func AllHistorySubjects() string { return historyRoot + ">" }

// AllAPISubjects returns the subject pattern of all clients' requests to the apiservers.
func AllAPISubjects() string { return apiRoot + "*.*" }

// ParseAsker reads the client from the subject of an ask, a request or a report.
func ParseAsker(subject string) (Asker, error) {
	var rest string
	ok := false
	for _, root := range []string{askRoot, apiRoot, historyRoot, reportRoot} {
		if rest, ok = strings.CutPrefix(subject, root); ok {
			break
		}
	}
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) < 2 || slices.Contains(tokens, "") {
		return Asker{}, fmt.Errorf("the subject %q names no client", subject)
	}
	return Asker{Inbox: tokens[0], Identity: tokens[1]}, nil
}

// WhoSubject returns the subject at which a client asks for its own identity.
func WhoSubject(inbox string) string { return whoRoot + inbox }

// Rights lists the subjects at which a client may publish and subscribe. All others are forbidden.
type Rights struct{ Publish, Subscribe []string }

// RightsOf returns the rights that every identified client has: to ask, to receive answers, to
// answer requests for reports, and to hear which writes are traced.
func RightsOf(a Asker) Rights {
	return Rights{
		Publish: []string{
			askRoot + a.tokens() + ".>", historyRoot + a.tokens() + ".>", a.API(), WhoSubject(a.Inbox), a.Report("*"),
			inboxRoot + "*." + from + "." + a.Inbox + ".>",
		},
		Subscribe: []string{inboxRoot + a.Inbox + ".>", reports, traces},
	}
}

// RightsOfNode returns the additional rights of a node agent: to serve the node's services.
func RightsOfNode(node string) Rights {
	return Rights{
		Publish:   []string{inboxRoot + "*." + from + "." + nodePeer + Token(node) + ".>"},
		Subscribe: []string{nodeRoot + Token(node) + ".>"},
	}
}

// inboxFor returns an inbox below own at which only the apiservers and one peer may publish. The
// peer is the owner of the inbox subject, or the agent of the node that the subject names.
func inboxFor(own, subject, unique string) string {
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

// isFor reports whether inboxFor created subject for the owner of the inboxes below own. That owner
// may publish there, whichever client named the subject to it.
func isFor(subject, own string) bool {
	tokens := strings.Split(subject, ".")
	return IsInbox(subject) && len(tokens) == 5 && tokens[2] == from && tokens[3] == strings.TrimPrefix(own, inboxRoot)
}
