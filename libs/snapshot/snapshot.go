// Package snapshot is how a copy of all that an etcd cluster holds travels from an apiserver to
// whoever keeps it: where it is asked for, what is said with it, and how its reader makes sure
// that it is whole.
package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Path is where an apiserver gives a snapshot. It is no path below /debug: a snapshot holds
// every Secret, so that a right to read what a process shows of itself must not reach it.
const Path = "/admin/garboard/snapshot"

// Query is the parameter of Path that names the etcd cluster: Main, or the resource that a
// cluster of its own is for.
const Query = "etcd"

// Main names the etcd cluster of all resources that have none of their own.
const Main = "main"

// Headers of the answer.
const (
	// HeaderEtcd is the name of the cluster, HeaderClusters those of all, with commas between.
	HeaderEtcd     = "Garboard-Etcd"
	HeaderClusters = "Garboard-Etcd-Clusters"
	// HeaderVersion is the version of the member that made the snapshot.
	HeaderVersion = "Garboard-Etcd-Version"
	// HeaderRevision is a revision up to which the snapshot certainly reaches: all that was
	// answered before it was asked for is in it.
	HeaderRevision = "Garboard-Etcd-Revision"
	// HeaderSize is the size of the database in bytes before the snapshot was begun, as a hint
	// of how long it will be.
	HeaderSize = "Garboard-Etcd-Size"
)

// unit is the least size of a page of etcd's database: the length of a database is a multiple of
// it, so that what is beyond is the hash that etcd appends.
const unit = 512

// ErrIncomplete says that a snapshot has no hash at its end: it was cut off, or is no snapshot.
var ErrIncomplete = errors.New("the snapshot is not whole: there is no hash at its end")

// ErrDamaged says that the hash at the end is not that of what is before it.
var ErrDamaged = errors.New("the snapshot is damaged: its hash is another one than etcd computed")

// Verifier is a writer that computes the hash of a snapshot while it passes.
type Verifier struct {
	sum  hash.Hash
	tail []byte // the last bytes, which may be the hash that etcd appended
	size int64
}

// NewVerifier makes a verifier that has seen nothing.
func NewVerifier() *Verifier { return &Verifier{sum: sha256.New()} }

// Write takes the next part of the snapshot; it never fails.
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

// Size is how many bytes have passed.
func (v *Verifier) Size() int64 { return v.size }

// Sum is the SHA-256 of the database. It fails unless all that passed was a database with its
// hash behind it: ErrIncomplete or ErrDamaged.
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

// Verify reads a whole snapshot and gives the SHA-256 of its database.
func Verify(from io.Reader) ([]byte, error) {
	v := NewVerifier()
	if _, err := io.Copy(v, from); err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	return v.Sum()
}
