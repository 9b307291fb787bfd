package bus

import (
	"fmt"
	"slices"
	"strings"
)

// Asker is who asks, as the subject of what he sends says. With identities on the bus NATS
// keeps every client to his own, so nobody can speak as another.
type Asker struct {
	// Inbox is the part of the asker's inboxes that only he has.
	Inbox string
	// Identity is one token by which the apiservers know the user and, as IdentityAt writes it, from
	// where it connected; NoIdentity on a bus without identities.
	Identity string
}

// IdentityAt is the identity of who connects from a host, as NATS sees that. The host may be empty.
func IdentityAt(identity, host string) string {
	if host == "" {
		return identity
	}
	return identity + nothing + Token(host)
}

// Host is from where the asker connected to NATS; empty if that is not known. NATS keeps each client
// to it, as to its identity.
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

// NoIdentity is the identity of everybody on a bus without identities.
const NoIdentity = nothing

// Subjects of askers.
const (
	whoRoot     = "gb.who."
	apiRoot     = "gb.api."
	historyRoot = "gb.history."
	reportRoot  = "gb.report."
	// reports is where all are asked how they are.
	reports = "gb.reports"
	// traces is where apiservers tell what is traced.
	traces = "gb.trace"
	// from is the token behind a client's own part of an inbox which is for one other alone.
	from = "from"
	// nodePeer begins the token of a node in such an inbox.
	nodePeer = "~node-"
)

// User is the same for all askers that are one user, wherever they are. On a bus without identities
// each is one.
func (a Asker) User() string {
	if a.Identity == NoIdentity {
		return a.Inbox
	}
	user, _, _ := strings.Cut(a.Identity, nothing)
	return user
}

func (a Asker) tokens() string { return a.Inbox + "." + a.Identity }

// Owns says whether subject is an inbox of the asker. Nobody is answered anywhere else.
func (a Asker) Owns(subject string) bool {
	return a.Inbox != "" && IsInbox(subject) && strings.HasPrefix(subject, inboxRoot+a.Inbox+".")
}

// Ask is where this asker's asks about a resource travel.
func (a Asker) Ask(group, resource string) string {
	return askRoot + a.tokens() + "." + resourceTokens(group, resource)
}

// History is where this asker asks for the history of a resource.
func (a Asker) History(group, resource string) string {
	return historyRoot + a.tokens() + "." + resourceTokens(group, resource)
}

// API is where this asker's requests to the apiservers travel.
func (a Asker) API() string { return apiRoot + a.tokens() }

// Report is where this asker answers the question how he is, which a token tells from others.
func (a Asker) Report(question string) string { return reportRoot + a.tokens() + "." + question }

// ReportsSubject is where an apiserver asks everybody how he is.
func ReportsSubject() string { return reports }

// TraceSubject is where an apiserver tells that it begins a write which is traced.
func TraceSubject() string { return traces }

// AllReportSubjects covers the answers to one such question, whoever gives them.
func AllReportSubjects(question string) string { return reportRoot + "*.*." + question }

// AskSubject covers the asks about a resource, whoever asks.
func AskSubject(group, resource string) string {
	return askRoot + "*.*." + resourceTokens(group, resource)
}

// AllAskSubjects covers the asks about all resources.
func AllAskSubjects() string { return askRoot + ">" }

// AllHistorySubjects covers the asks for the history of all resources.
func AllHistorySubjects() string { return historyRoot + ">" }

// AllAPISubjects covers the requests to the apiservers, whoever asks.
func AllAPISubjects() string { return apiRoot + "*.*" }

// ParseAsker reads who asks from the subject of an ask or of a request.
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
		return Asker{}, fmt.Errorf("the subject %q does not say who asks", subject)
	}
	return Asker{Inbox: tokens[0], Identity: tokens[1]}, nil
}

// WhoSubject is where a client asks who he is.
func WhoSubject(inbox string) string { return whoRoot + inbox }

// Rights are the subjects at which a client may publish and subscribe; nowhere else.
type Rights struct{ Publish, Subscribe []string }

// RightsOf are those of every client who was found out, whatever else he may: to ask, to be
// answered, to say how he is when he is asked, and to hear what is traced.
func RightsOf(a Asker) Rights {
	return Rights{
		Publish: []string{
			askRoot + a.tokens() + ".>", historyRoot + a.tokens() + ".>", a.API(), WhoSubject(a.Inbox), a.Report("*"),
			inboxRoot + "*." + from + "." + a.Inbox + ".>",
		},
		Subscribe: []string{inboxRoot + a.Inbox + ".>", reports, traces},
	}
}

// RightsOfNode are those that a node's agent has beside them: to serve the node's services.
func RightsOfNode(node string) Rights {
	return Rights{
		Publish:   []string{inboxRoot + "*." + from + "." + nodePeer + Token(node) + ".>"},
		Subscribe: []string{nodeRoot + Token(node) + ".>"},
	}
}

// inboxFor is an inbox below own at which only a peer may speak, beside the apiservers: the
// owner of an inbox, or who serves a node's subject.
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

// isFor says whether subject is an inbox that was made by inboxFor for the owner of the inboxes
// below own: he may speak there, whoever named the subject to him.
func isFor(subject, own string) bool {
	tokens := strings.Split(subject, ".")
	return IsInbox(subject) && len(tokens) == 5 && tokens[2] == from && tokens[3] == strings.TrimPrefix(own, inboxRoot)
}
