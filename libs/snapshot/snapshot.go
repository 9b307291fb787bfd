// Package snapshot defines how a copy of everything in an etcd cluster travels from an apiserver to
// a client. It defines the path, the headers, and how the client verifies that the copy is
// complete.
package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Path is where an apiserver serves a snapshot. It is not below /debug: a snapshot contains every
// Secret, so permission to read a process's debug data must not cover it.
const Path = "/admin/garboard/snapshot"

// Query is the parameter of Path that names the etcd cluster: Main, or the resource that a
// dedicated cluster stores.
const Query = "etcd"

// Main names the etcd cluster of all resources without a dedicated one.
const Main = "main"

// Headers of the response.
const (
	// HeaderEtcd is the name of the cluster, HeaderClusters the names of all, separated by commas.
	HeaderEtcd     = "Garboard-Etcd"
	HeaderClusters = "Garboard-Etcd-Clusters"
	// HeaderVersion is the version of the member that made the snapshot.
	HeaderVersion = "Garboard-Etcd-Version"
	// HeaderRevision is a revision that the snapshot certainly includes: it contains every write
	// that was acknowledged before the request.
	HeaderRevision = "Garboard-Etcd-Revision"
	// HeaderSize is the size of the database in bytes before the snapshot began, a hint of the
	// snapshot's length.
	HeaderSize = "Garboard-Etcd-Size"
)

// unit is the smallest page size of etcd's database: the length of a database is a multiple of it,
// so the remainder is the hash that etcd appends.
const unit = 512

// ErrIncomplete means that a snapshot has no hash at its end: it was truncated, or is not a
// snapshot.
var ErrIncomplete = errors.New("the snapshot is incomplete: there is no hash at its end")

// ErrDamaged means that the hash at the end does not match the content.
var ErrDamaged = errors.New("the snapshot is damaged: its hash differs from the one that etcd computed")

// Verifier is a writer that computes the hash of a snapshot as it is written.
type Verifier struct {
	sum  hash.Hash
	tail []byte // the last bytes, which may be etcd's hash
	size int64
}

// NewVerifier returns an empty verifier.
func NewVerifier() *Verifier { return &Verifier{sum: sha256.New()} }

// Write adds the next part of the snapshot; it never fails.
func (v *Verifier) Write(part []byte) (int, error) {
	n := len(part)
	v.size += int64(n)
	if n >= sha256.Size {
		_, _ = v.sum.Write(v.tail)
		_, _ = v.sum.Write(part[:n-sha256.Size])
		v.tail = append(v.tail[:0], part[n-sha256.Size:]...)
		return n, nil
	}
	v.tail = append(v.tail, part...)
	if over := len(v.tail) - sha256.Size; over > 0 {
		_, _ = v.sum.Write(v.tail[:over])
		v.tail = append(v.tail[:0], v.tail[over:]...)
	}
	return n, nil
}

// Size returns how many bytes were written.
func (v *Verifier) Size() int64 { return v.size }

// Sum returns the SHA-256 of the database. It returns ErrIncomplete or ErrDamaged unless the
// written bytes are a database followed by its hash.
func (v *Verifier) Sum() ([]byte, error) {
	if v.size <= sha256.Size || (v.size-sha256.Size)%unit != 0 {
		return nil, fmt.Errorf("%w (%d bytes)", ErrIncomplete, v.size)
	}
	sum := v.sum.Sum(nil)
	if !bytes.Equal(sum, v.tail) {
		return nil, fmt.Errorf("%w: %x, not %x", ErrDamaged, sum, v.tail)
	}
	return sum, nil
}

// Verify reads a whole snapshot and returns the SHA-256 of its database.
func Verify(from io.Reader) ([]byte, error) {
	v := NewVerifier()
	if _, err := io.Copy(v, from); err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	return v.Sum()
}
