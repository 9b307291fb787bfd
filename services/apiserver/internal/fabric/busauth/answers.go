package busauth

import (
	"strings"
	"sync"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
)

// answersBytes bounds the subjects that are kept; each takes watchedBytes in addition to its
// length.
const answersBytes, watchedBytes = 16 << 20, 128

// answers keeps users' subjects until something changes on which they depend: many clients are one
// user, and after a restart of NATS all of them reconnect at once.
type answers struct {
	mu    sync.Mutex
	at    state
	known map[string][]watched
	bytes int
}

// state is everything that subjects depend on, besides the user.
type state struct {
	granted rbac.Versions
	kinds   *kinds
}

// question is everything that subjects depend on.
type question struct {
	at   state
	user string
}

// key returns what a user's subjects depend on. keep reports whether they depend on nothing else; a
// node's subjects depend on more.
func (a *answers) key(roles Roles, served *kinds, user authn.User) (q question, keep bool) {
	a.mu.Lock()
	at := a.at
	a.mu.Unlock()
	q.at = state{granted: roles.Versions(at.granted), kinds: served}
	_, isNode := node.Identity(user)
	// Names from certificates and tokens contain no zero byte; the subjects of a name that does are
	// not kept.
	q.user = strings.Join(append([]string{user.Name}, user.Groups...), "\x00")
	return q, !isNode && strings.Count(q.user, "\x00") == len(user.Groups)
}

// get returns the subjects of a question; false if they are not known. They must not be modified.
func (a *answers) get(q question) ([]watched, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.at != a.at {
		return nil, false
	}
	subjects, ok := a.known[q.user]
	return subjects, ok
}

// put keeps the subjects of a question. It forgets those of other versions, and everything if it
// becomes too much.
func (a *answers) put(q question, subjects []watched) {
	size := len(q.user)
	for _, one := range subjects {
		size += len(one.subject) + watchedBytes
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.at != a.at || a.bytes+size > answersBytes {
		a.at, a.known, a.bytes = q.at, nil, 0
	}
	if a.known == nil {
		a.known = map[string][]watched{}
	}
	if _, ok := a.known[q.user]; !ok {
		a.known[q.user], a.bytes = subjects, a.bytes+size
	}
}
