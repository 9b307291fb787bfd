package subject

import (
	"fmt"
	"slices"
	"strings"
)

// Client identifies a client by the subject of what it sends. On a bus with identities, NATS
// restricts every client to its own subjects, so no client can speak as another.
type Client struct {
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
func (c Client) Host() string {
	_, token, _ := strings.Cut(c.Identity, nothing)
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
)

// User returns the same value for all clients that belong to one user, wherever they run. On a bus
// without identities each client counts as a user of its own.
func (c Client) User() string {
	if c.Identity == NoIdentity {
		return c.Inbox
	}
	user, _, _ := strings.Cut(c.Identity, nothing)
	return user
}

func (c Client) tokens() string { return c.Inbox + "." + c.Identity }

// Ask returns the subject of this client's asks about a resource.
func (c Client) Ask(group, resource string) string {
	return askRoot + c.tokens() + "." + resourceTokens(group, resource)
}

// History returns the subject at which this client asks for the history of a resource.
func (c Client) History(group, resource string) string {
	return historyRoot + c.tokens() + "." + resourceTokens(group, resource)
}

// API returns the subject of this client's requests to the apiservers.
func (c Client) API() string { return apiRoot + c.tokens() }

// Report returns the subject at which this client answers one request for reports; question is the
// token that distinguishes that request from others.
func (c Client) Report(question string) string { return reportRoot + c.tokens() + "." + question }

// Reports returns the subject at which an apiserver asks every process for its report.
func Reports() string { return reports }

// Trace returns the subject at which an apiserver announces that a traced write begins.
func Trace() string { return traces }

// AllReports returns the subject pattern of all answers to one request for reports.
func AllReports(question string) string { return reportRoot + "*.*." + question }

// Asks returns the subject pattern of all clients' asks about a resource.
func Asks(group, resource string) string {
	return askRoot + "*.*." + resourceTokens(group, resource)
}

// AllAsks returns the subject pattern of the asks about all resources.
func AllAsks() string { return askRoot + ">" }

// AllHistory returns the subject pattern of the asks for the history of all resources.
func AllHistory() string { return historyRoot + ">" }

// AllAPI returns the subject pattern of all clients' requests to the apiservers.
func AllAPI() string { return apiRoot + "*.*" }

// ParseClient reads the client from the subject of an ask, a request or a report.
func ParseClient(subject string) (Client, error) {
	var rest string
	ok := false
	for _, root := range []string{askRoot, apiRoot, historyRoot, reportRoot} {
		if rest, ok = strings.CutPrefix(subject, root); ok {
			break
		}
	}
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) < 2 || slices.Contains(tokens, "") {
		return Client{}, fmt.Errorf("the subject %q names no client", subject)
	}
	return Client{Inbox: tokens[0], Identity: tokens[1]}, nil
}

// Who returns the subject at which a client asks for its own identity.
func Who(inbox string) string { return whoRoot + inbox }
