package authn

import (
	"crypto/sha256"
	"sync"
)

// maxSignatures bounds the remembered tokens in each of the two generations.
const maxSignatures = 16 << 10

// signatures remembers tokens whose signature was verified, since verifying costs more than the
// rest of a request's authentication. Kubernetes caches the user of a token for ten seconds, during
// which a withdrawn token is still accepted. Here only the signature check is cached, which becomes
// wrong only with the keys; validity period, audience and bound objects are checked for every request.
type signatures struct {
	mu sync.Mutex
	// There are two generations. When the younger is full it becomes the older, and the entries of
	// the old one that were not used since are dropped. Digests keep the tokens themselves out of
	// memory.
	younger, older map[[sha256.Size]byte]*claims
	// keys is the generation of the keys that verified the tokens.
	keys uint64
}

func newSignatures() *signatures { return &signatures{younger: map[[sha256.Size]byte]*claims{}} }

// find returns the claims of a token that was verified with keys of the given generation, or nil.
func (s *signatures) find(token string, keys uint64) *claims {
	key := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(keys)
	if c := s.younger[key]; c != nil {
		return c
	}
	c := s.older[key]
	if c != nil {
		s.add(key, c)
	}
	return c
}

// keep remembers a token that was verified with keys of the given generation.
func (s *signatures) keep(token string, c *claims, keys uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.enter(keys); keys < s.keys {
		return
	}
	s.add(sha256.Sum256([]byte(token)), c)
}

// enter forgets everything if the keys are of a later generation than before.
func (s *signatures) enter(keys uint64) {
	if keys > s.keys {
		s.younger, s.older, s.keys = map[[sha256.Size]byte]*claims{}, nil, keys
	}
}

func (s *signatures) add(key [sha256.Size]byte, c *claims) {
	if len(s.younger) >= maxSignatures {
		s.younger, s.older = map[[sha256.Size]byte]*claims{}, s.younger
	}
	s.younger[key] = c
}
