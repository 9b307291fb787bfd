package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/garboard/garboard/libs/snapshot"
)

// sealed returns a database of so many pages, followed by its hash.
func sealed(pages int) (whole []byte, sum [sha256.Size]byte) {
	database := bytes.Repeat([]byte("sixteen bytes..\n"), pages*512/16)
	sum = sha256.Sum256(database)
	return append(database, sum[:]...), sum
}

func TestVerifyInAnyParts(t *testing.T) {
	whole, want := sealed(8)
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		v := snapshot.NewVerifier()
		for rest := whole; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(1+random.IntN(1000)))
			if m, err := v.Write(rest[:n]); m != n || err != nil {
				t.Fatalf("writing %d bytes: %d, %v", n, m, err)
			}
			rest = rest[n:]
		}
		if got, err := v.Sum(); err != nil || !bytes.Equal(got, want[:]) || v.Size() != int64(len(whole)) {
			t.Fatalf("got sum %x of %d bytes, %v; want %x of %d", got, v.Size(), err, want, len(whole))
		}
	}
}

func TestVerifyDetectsDamage(t *testing.T) {
	whole, _ := sealed(4)
	flipped := bytes.Clone(whole)
	flipped[700] ^= 1
	otherSum := bytes.Clone(whole)
	otherSum[len(otherSum)-1] ^= 1
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":                   {nil, snapshot.ErrIncomplete},
		"only a hash":               {whole[len(whole)-32:], snapshot.ErrIncomplete},
		"without its hash":          {whole[:len(whole)-32], snapshot.ErrIncomplete},
		"truncated within the hash": {whole[:len(whole)-1], snapshot.ErrIncomplete},
		"truncated by a page":       {whole[:len(whole)-512], snapshot.ErrDamaged},
		"a flipped bit":             {flipped, snapshot.ErrDamaged},
		"another hash":              {otherSum, snapshot.ErrDamaged},
	} {
		if _, err := snapshot.Verify(bytes.NewReader(tc.data)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if _, err := snapshot.Verify(bytes.NewReader(whole)); err != nil {
		t.Errorf("a complete snapshot: %v", err)
	}
}
