// Package subject is the grammar of the bus: the subjects at which programs publish and subscribe,
// what a subject says of its client, and which subjects a client may use. It computes strings and
// knows no connection.
//
// Every part of a name is one token:
//
//	gb.watch.<group>.<resource>.<scope>.<namespace>.<name>   a watch message
//	gb.watch.<group>.<resource>.~progress                    progress: everything up to a revision was sent
//	gb.ask.<inbox>.<identity>.<group>.<resource>             an ask
//	gb.history.<inbox>.<identity>.<group>.<resource>         an ask for the log's messages
//	gb.api.<inbox>.<identity>                                a request to the apiservers
//	gb.who.<inbox>                                           a client asks for its own identity
//	gb.reports                                               a request for reports, to all processes
//	gb.trace                                                 a traced write begins
//	gb.report.<inbox>.<identity>.<question>                  a report, in answer to gb.reports
//	gb.node.<node>.api                                       a request to the agent of a node
//	gb.lead.<election>.<candidate>                           liveness of a candidate, among apiservers
//
// Letters, digits and most punctuation stand for themselves; every other byte is ~ and two
// hexadecimal digits. A lone ~ is the empty name, or the scope of an object without one. A name of
// more than 255 bytes is ~h and its SHA-256. So two names never share a token, and no name has a
// token like ~progress.
package subject

import "strings"

const (
	watchRoot     = "gb.watch."
	askRoot       = "gb.ask."
	nodeRoot      = "gb.node."
	leadRoot      = "gb.lead."
	progressToken = "~progress"
	coreGroup     = "core"
)

func groupToken(group string) string {
	switch group {
	case "":
		return coreGroup
	case coreGroup:
		return "~63ore"
	}
	return Token(group)
}

// scopeToken encodes a scope; the scope of an object without one is "~" already.
func scopeToken(scope string) string {
	if scope == nothing {
		return nothing
	}
	return Token(scope)
}

func resourceTokens(group, resource string) string {
	return groupToken(group) + "." + Token(resource)
}

// Watch returns the subject of the watch messages of one object. The scope "" or "~" means
// an object without a scope; the namespace "" means a cluster-scoped object.
func Watch(group, resource, scope, namespace, name string) string {
	return watchRoot + resourceTokens(group, resource) + "." + scopeToken(scope) + "." + Token(namespace) + "." + Token(name)
}

// View returns the subject pattern of the watch messages of a view. If scope, namespace and
// name are empty, that is the whole resource, including its progress messages. Otherwise it is a
// scope ("~" for objects without one), a namespace, or one object. A name without a namespace is
// that of a cluster-scoped object.
func View(group, resource, scope, namespace, name string) string {
	base := watchRoot + resourceTokens(group, resource) + "."
	if scope == "" && namespace == "" && name == "" {
		return base + ">"
	}
	s, ns, n := "*", "*", "*"
	if scope != "" {
		s = scopeToken(scope)
	}
	if namespace != "" || name != "" {
		ns = Token(namespace)
	}
	if name != "" {
		n = Token(name)
	}
	if n == "*" {
		if ns == "*" {
			return base + s + ".>"
		}
		n = ">"
	}
	return base + s + "." + ns + "." + n
}

// Resource returns the subject pattern of all watch messages of a resource.
func Resource(group, resource string) string { return View(group, resource, "", "", "") }

// Changes returns the subject pattern of a resource's watch messages that carry changes.
func Changes(group, resource string) string {
	return strings.TrimSuffix(Resource(group, resource), ">") + "*.*.*"
}

// Group returns the subject pattern of the watch messages of all resources of a group.
func Group(group string) string { return watchRoot + groupToken(group) + ".>" }

// AllWatch returns the subject pattern of the watch messages of all resources, which the
// log stores.
func AllWatch() string { return watchRoot + ">" }

// Progress returns the subject of a resource's progress messages.
func Progress(group, resource string) string {
	return watchRoot + resourceTokens(group, resource) + "." + progressToken
}

// NodeAPI returns the subject of requests to the agent of a node.
func NodeAPI(node string) string { return nodeRoot + Token(node) + ".api" }

// Lead returns the subject at which a candidate of an election, or its leader, shows that it
// is alive. Only apiservers are heard and answered there.
func Lead(election, candidate string) string {
	return leadRoot + Token(election) + "." + Token(candidate)
}
