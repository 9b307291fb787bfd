package busauth

import (
	"strings"
	"sync"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
)

// answersBytes bounds the subjects that are kept; each takes watchedBytes beside its length.
const answersBytes, watchedBytes = 16 << 20, 128

// answers keeps the subjects of users while nothing changes by which they are found: many clients
// are one user, and after a restart of NATS all come at once.
type answers struct {
	mu    sync.Mutex
	at    rbac.Versions
	known map[string][]watched
	bytes int
}

// question is what subjects depend on.
type question struct {
	at  rbac.Versions
	who string
}

// key gives what a user's subjects depend on. keep says whether they depend on nothing else, which
// those of a node do.
func (a *answers) key(roles Roles, user authn.User) (q question, keep bool) {
	a.mu.Lock()
	at := a.at
	a.mu.Unlock()
	q.at = roles.Versions(at)
	_, isNode := node.Identity(user)
	// No name has a zero byte that comes from a certificate or a token; one that has is not kept.
	q.who = strings.Join(append([]string{user.Name}, user.Groups...), "\x00")
	return q, !isNode && strings.Count(q.who, "\x00") == len(user.Groups)
}

// get gives the subjects of a question; false if they are not known. They must not be changed.
func (a *answers) get(q question) ([]watched, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.at != a.at {
		return nil, false
	}
	subjects, ok := a.known[q.who]
	return subjects, ok
}

// put keeps the subjects of a question. What is known of other versions, or too much, is forgotten.
func (a *answers) put(q question, subjects []watched) {
	size := len(q.who)
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
	if _, ok := a.known[q.who]; !ok {
		a.known[q.who], a.bytes = subjects, a.bytes+size
	}
}
