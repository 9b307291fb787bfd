package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"time"
)

// maxVerified bounds the remembered certificate chains in each of the two generations.
const maxVerified = 4 << 10

// verified remembers verified client certificates. A client sends many requests with the same
// certificate, and verifying it costs more than the rest of reading a pod. An entry holds for the
// set of authorities it was verified with, and while every certificate of its chain is valid. The
// verdict depends on nothing else.
type verified struct {
	mu sync.Mutex
	// There are two generations. When the younger is full it becomes the older, and the entries of
	// the old one that were not used since are dropped.
	younger, older map[verifiedKey]verdict
}

type verifiedKey struct {
	roots *x509.CertPool
	certs [sha256.Size]byte
}

// verdict is the user of a certificate, the authority at the end of its chain, and the time for which the
// entry holds.
type verdict struct {
	user      User
	authority string
	from, end time.Time
}

// result returns the user with what must stay true for it to be authenticated.
func (v verdict) result() Result {
	return Result{User: v.user, Certificate: Certified{Authority: v.authority, Ends: v.end}}
}

func keyOf(roots *x509.CertPool, certs []*x509.Certificate) verifiedKey {
	hash := sha256.New()
	for _, cert := range certs {
		hash.Write(cert.Raw) // DER contains its own length
	}
	key := verifiedKey{roots: roots}
	hash.Sum(key.certs[:0])
	return key
}

// find returns the verdict on certificates that were verified and are still valid.
func (v *verified) find(key verifiedKey, now time.Time) (verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.younger[key]
	if !ok {
		if known, ok = v.older[key]; !ok {
			return verdict{}, false
		}
		v.add(key, known)
	}
	if now.Before(known.from) || now.After(known.end) {
		return verdict{}, false
	}
	return known, true
}

// keep remembers the user of a verified chain, and returns the verdict.
func (v *verified) keep(key verifiedKey, user User, chain []*x509.Certificate) verdict {
	known := verdict{user: user, authority: authorityOf(chain[len(chain)-1]), from: chain[0].NotBefore, end: chain[0].NotAfter}
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
	return known
}

func (v *verified) add(key verifiedKey, known verdict) {
	if v.younger == nil || len(v.younger) >= maxVerified {
		v.younger, v.older = map[verifiedKey]verdict{}, v.younger
	}
	v.younger[key] = known
}
