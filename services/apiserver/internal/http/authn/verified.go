package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"time"
)

// maxVerified bounds how many clients' certificates are remembered, twice over.
const maxVerified = 4 << 10

// verified remembers client certificates that were verified: a client sends many requests with
// the same one, and verifying it costs more than all the rest of reading a pod. It is
// remembered for the set of authorities by which it was verified, and counts only as long as
// every certificate of its chain is valid, which are all that the verdict depends on.
type verified struct {
	mu sync.Mutex
	// Two generations: when the younger is full it becomes the older, and what was in that and
	// has not been asked for since is forgotten.
	younger, older map[verifiedKey]verdict
}

type verifiedKey struct {
	roots *x509.CertPool
	certs [sha256.Size]byte
}

// verdict is the user of a certificate and when it counts.
type verdict struct {
	user      User
	from, end time.Time
}

func keyOf(roots *x509.CertPool, certs []*x509.Certificate) verifiedKey {
	hash := sha256.New()
	for _, cert := range certs {
		hash.Write(cert.Raw) // DER says its own length
	}
	key := verifiedKey{roots: roots}
	hash.Sum(key.certs[:0])
	return key
}

// find gives the user of certificates that were verified and still count.
func (v *verified) find(key verifiedKey, now time.Time) (User, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.younger[key]
	if !ok {
		if known, ok = v.older[key]; !ok {
			return User{}, false
		}
		v.add(key, known)
	}
	if now.Before(known.from) || now.After(known.end) {
		return User{}, false
	}
	return known.user, true
}

// keep remembers the user of a verified chain.
func (v *verified) keep(key verifiedKey, user User, chain []*x509.Certificate) {
	known := verdict{user: user, from: chain[0].NotBefore, end: chain[0].NotAfter}
	for _, cert := range chain[1:] {
		if cert.NotBefore.After(known.from) {
			known.from = cert.NotBefore
		}
		if cert.NotAfter.Before(known.end) {
			known.end = cert.NotAfter
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.add(key, known)
}

func (v *verified) add(key verifiedKey, known verdict) {
	if v.younger == nil || len(v.younger) >= maxVerified {
		v.younger, v.older = map[verifiedKey]verdict{}, v.younger
	}
	v.younger[key] = known
}
