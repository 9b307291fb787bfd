package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// The grammar of subjects. Every part of a name is one token:
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
//	gb.node.<node>.<service>                                 a service of a node
//	gb.lead.<election>.<candidate>                           liveness of a candidate, among apiservers
//
// Letters, digits and most punctuation stand for themselves; every other byte is ~ and two
// hexadecimal digits. A lone ~ is the empty name, or the scope of an object without one. A name of
// more than 255 bytes is ~h and its SHA-256. So two names never share a token, and no name has a
// token like ~progress.
const (
	watchRoot     = "gb.watch."
	askRoot       = "gb.ask."
	nodeRoot      = "gb.node."
	leadRoot      = "gb.lead."
	nothing       = "~"
	progressToken = "~progress"
	hashPrefix    = "~h"
	coreGroup     = "core"
	// maxName is the longest name, in bytes, that a token spells out.
	maxName = 255
)

const hexDigits = "0123456789abcdef"

func plain(b byte) bool {
	return b > ' ' && b < 0x7f && b != '~' && b != '.' && b != '*' && b != '>'
}

// Token encodes a name as one token of a subject.
func Token(name string) string {
	switch {
	case name == "":
		return nothing
	case len(name) > maxName:
		sum := sha256.Sum256([]byte(name))
		return hashPrefix + hex.EncodeToString(sum[:])
	}
	special := 0
	for i := range len(name) {
		if !plain(name[i]) {
			special++
		}
	}
	if special == 0 {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + 2*special)
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('~')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// ParseToken decodes what Token encoded. It fails for the token of a name of more than 255 bytes,
// which cannot be decoded, and for tokens that Token never returns.
func ParseToken(token string) (string, error) {
	if token == nothing {
		return "", nil
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if plain(c) {
			b.WriteByte(c)
			continue
		}
		if c != '~' || i+2 >= len(token) {
			return "", fmt.Errorf("reading the subject token %q: it is not an encoded name", token)
		}
		high, low := strings.IndexByte(hexDigits, token[i+1]), strings.IndexByte(hexDigits, token[i+2])
		if high < 0 || low < 0 || plain(byte(high<<4|low)) {
			return "", fmt.Errorf("reading the subject token %q: it is not an encoded name", token)
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	if b.Len() == 0 || b.Len() > maxName {
		return "", fmt.Errorf("reading the subject token %q: it is not an encoded name", token)
	}
	return b.String(), nil
}

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

// WatchSubject returns the subject of the watch messages of one object. The scope "" or "~" means
// an object without a scope; the namespace "" means a cluster-scoped object.
func WatchSubject(group, resource, scope, namespace, name string) string {
	return watchRoot + resourceTokens(group, resource) + "." + scopeToken(scope) + "." + Token(namespace) + "." + Token(name)
}

// ViewSubject returns the subject pattern of the watch messages of a view. If scope, namespace and
// name are empty, that is the whole resource, including its progress messages. Otherwise it is a
// scope ("~" for objects without one), a namespace, or one object. A name without a namespace is
// that of a cluster-scoped object.
func ViewSubject(group, resource, scope, namespace, name string) string {
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

// ResourceSubject returns the subject pattern of all watch messages of a resource.
func ResourceSubject(group, resource string) string { return ViewSubject(group, resource, "", "", "") }

// ChangesSubject returns the subject pattern of a resource's watch messages that carry changes.
func ChangesSubject(group, resource string) string {
	return strings.TrimSuffix(ResourceSubject(group, resource), ">") + "*.*.*"
}

// AllWatchSubjects returns the subject pattern of the watch messages of all resources, which the
// log stores.
func AllWatchSubjects() string { return watchRoot + ">" }

// ProgressSubject returns the subject of a resource's progress messages.
func ProgressSubject(group, resource string) string {
	return watchRoot + resourceTokens(group, resource) + "." + progressToken
}

// NodeSubject returns the subject of requests to a service of a node ("logs", "exec").
func NodeSubject(node, service string) string {
	return nodeRoot + Token(node) + "." + Token(service)
}

// LeadSubject returns the subject at which a candidate of an election, or its leader, shows that it
// is alive. Only apiservers are heard and answered there.
func LeadSubject(election, candidate string) string {
	return leadRoot + Token(election) + "." + Token(candidate)
}
