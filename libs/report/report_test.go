package report_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/report"
)

func TestCertificates(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ends := time.Now().Add(time.Hour).Truncate(time.Second)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jane"}, NotAfter: ends,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	// The file may also contain a key, even before the certificate.
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	path := filepath.Join(t.TempDir(), "tls.crt")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]report.Certificate{
		"data": report.CertificatesIn("use", text, "/not/there"), "file": report.CertificatesIn("use", nil, path),
	} {
		if len(got) != 1 || got[0].Use != "use" || got[0].Subject != "CN=jane" || got[0].Issuer != "CN=ca" || !got[0].NotAfter.Equal(ends) || got[0].Fault != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := report.CertificatesIn("use", nil, ""); got != nil {
		t.Errorf("without data: %+v", got)
	}
	for want, got := range map[string][]report.Certificate{
		"no such file":     report.CertificatesIn("use", nil, path+"x"),
		"no certificate":   report.CertificatesIn("use", []byte("sheep"), ""),
		"it cannot be rea": report.CertificatesIn("use", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), ""),
	} {
		if len(got) != 1 || !strings.Contains(got[0].Fault, want) {
			t.Errorf("want a fault about %q, got %+v", want, got)
		}
	}
}
