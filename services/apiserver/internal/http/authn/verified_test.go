package authn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// issue returns a certificate that is signed by an authority, or by itself if by is nil.
func issue(t *testing.T, name string, from, end time.Time, by *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(from.UnixNano()), NotBefore: from, NotAfter: end,
		Subject:     pkix.Name{CommonName: name, Organization: []string{"team"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		by, key = template, own
	}
	data, err := x509.CreateCertificate(rand.Reader, template, by, &own.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(data)
	if err != nil {
		t.Fatal(err)
	}
	return cert, own
}

// TestVerifiedCertificates checks that a cached certificate is valid no longer than it and its
// authority are, and for no other certificate.
func TestVerifiedCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ca, key := issue(t, "ca", began.Add(-time.Hour), began.Add(2*time.Hour), nil, nil)
		short, _ := issue(t, "short", began.Add(-time.Hour), began.Add(time.Hour), ca, key)
		long, _ := issue(t, "long", began.Add(-time.Hour), began.Add(9*time.Hour), ca, key)
		other, otherKey := issue(t, "other", began.Add(-time.Hour), began.Add(9*time.Hour), nil, nil)
		stranger, _ := issue(t, "long", began.Add(-time.Hour), began.Add(9*time.Hour), other, otherKey)
		authorities, err := NewAuthorities(ca, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		a := New(Config{ClientCAs: authorities})
		check := func(cert *x509.Certificate, want bool) {
			t.Helper()
			r := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
			for range 3 {
				result, ok, err := a.certificate(r)
				if ok != want || (err == nil) != want || ok && result.User.Name != cert.Subject.CommonName {
					t.Errorf("after %v, %s: got %v, %t, %v", time.Since(began), cert.Subject, result, ok, err)
				}
			}
		}
		check(short, true)
		check(long, true)
		check(stranger, false)
		time.Sleep(time.Hour + time.Second)
		check(short, false)
		check(long, true)
		time.Sleep(time.Hour)
		check(long, false) // its authority has expired
		if n := len(a.verified.younger); n != 2 {
			t.Errorf("%d certificates are cached, want the two that were valid", n)
		}
	})
}

// TestVerifiedCertificatesByAuthority checks that a certificate is no longer accepted once its
// authority was removed.
func TestVerifiedCertificatesByAuthority(t *testing.T) {
	now := time.Now()
	ca, key := issue(t, "ca", now.Add(-time.Hour), now.Add(time.Hour), nil, nil)
	next, _ := issue(t, "next", now.Add(-time.Hour), now.Add(time.Hour), nil, nil)
	client, _ := issue(t, "client", now.Add(-time.Hour), now.Add(time.Hour), ca, key)
	path := filepath.Join(t.TempDir(), "ca.crt")
	write := func(cert *x509.Certificate, age time.Duration) {
		t.Helper()
		data := "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(cert.Raw) + "\n-----END CERTIFICATE-----\n"
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, time.Hour)
	authorities, err := NewAuthorities(nil, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{ClientCAs: authorities})
	r := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{client}}}
	for range 2 {
		if _, ok, err := a.certificate(r); !ok {
			t.Fatal(err)
		}
	}
	write(next, time.Minute)
	if _, ok, _ := a.certificate(r); ok {
		t.Error("a certificate of a removed authority is accepted")
	}
}

func TestVerifiedIsBounded(t *testing.T) {
	var v verified
	now := time.Now()
	chain := []*x509.Certificate{{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}}
	for i := range 3 * maxVerified {
		v.keep(keyOf(nil, []*x509.Certificate{{Raw: []byte{byte(i), byte(i >> 8)}}}), User{Name: "u"}, chain)
	}
	if n := len(v.younger) + len(v.older); n > 2*maxVerified {
		t.Errorf("%d certificates are cached, want at most %d", n, 2*maxVerified)
	}
}
