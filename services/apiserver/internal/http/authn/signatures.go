package authn

import (
	"crypto/sha256"
	"sync"
)

// maxSignatures bounds how many tokens' signatures are remembered, twice over.
const maxSignatures = 16 << 10

// signatures remembers tokens whose signature was verified, since that costs more than all the
// rest of a request's authentication. Kubernetes remembers whom a token stands for, for ten
// seconds, in which a token that was withdrawn still counts; here only the signature is not
// looked at again, which cannot become wrong: time, audience and bound objects are.
type signatures struct {
	mu sync.Mutex
	// Two generations: when the younger is full it becomes the older, and what was in that and
	// has not been asked for since is forgotten. Digests keep the tokens out of memory.
	younger, older map[[sha256.Size]byte]*claims
}

func newSignatures() *signatures { return &signatures{younger: map[[sha256.Size]byte]*claims{}} }

func (s *signatures) find(token string) *claims {
	key := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.younger[key]; c != nil {
		return c
	}
	c := s.older[key]
	if c != nil {
		s.add(key, c)
	}
	return c
}

func (s *signatures) keep(token string, c *claims) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(sha256.Sum256([]byte(token)), c)
}

func (s *signatures) add(key [sha256.Size]byte, c *claims) {
	if len(s.younger) >= maxSignatures {
		s.younger, s.older = map[[sha256.Size]byte]*claims{}, s.younger
	}
	s.younger[key] = c
}
