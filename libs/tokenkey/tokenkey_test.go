package tokenkey_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/garboard/garboard/libs/tokenkey"
)

// TestSigner checks the algorithm of each sort of key, and that a signature names the key that verifies it.
func TestSigner(t *testing.T) {
	for algorithm, newKey := range map[jose.SignatureAlgorithm]func() (crypto.Signer, error){
		jose.RS256: func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
		jose.ES256: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		jose.ES384: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
		jose.ES512: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
	} {
		key, err := newKey()
		if err != nil {
			t.Fatal(err)
		}
		signer, public, err := tokenkey.NewSigner(key)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := signer.Sign([]byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := signature.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{algorithm})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signed.Verify(public.Key); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if header := signed.Signatures[0].Header; header.KeyID != public.ID || header.Algorithm != string(algorithm) || public.Algorithm != algorithm {
			t.Errorf("%s: the header %+v does not fit %+v", algorithm, header, public)
		}
	}
}

// TestUnfitKeys checks that a key with which no token can be signed is refused.
func TestUnfitKeys(t *testing.T) {
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.Signer{p224, edwards} {
		if _, _, err := tokenkey.NewSigner(key); err == nil {
			t.Errorf("%T is accepted", key)
		}
	}
}
