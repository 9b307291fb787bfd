package certificates

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// signed returns a certificate for a key.
func signed(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) string {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	change(c)
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestClusterTrustBundle(t *testing.T) {
	type bundle = *certificatesv1.ClusterTrustBundle
	key := newKey(t, elliptic.P256())
	authority := signed(t, key, func(*x509.Certificate) {})
	headed := strings.Replace(authority, "CERTIFICATE-----\n", "CERTIFICATE-----\na: b\n\n", 1)
	newBundle := func() bundle {
		return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "x", ResourceVersion: "1"}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: authority}}
	}
	bundleOf := func(text string) func(bundle) { return func(b bundle) { b.Spec.TrustBundle = text } }
	const at = `spec.trustBundle: Invalid value: "<value omitted>": `
	for name, tc := range map[string]struct {
		change func(bundle)
		want   []string
	}{
		"fine":            {change: func(bundle) {}},
		"a colon":         {change: func(b bundle) { b.Name = "a:b" }, want: []string{`metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name`}},
		"of a signer":     {change: func(b bundle) { b.Name, b.Spec.SignerName = "example.com:s:x", "example.com/s" }},
		"of another":      {change: func(b bundle) { b.Spec.SignerName = "example.com/s" }, want: []string{`metadata.name: Invalid value: "x": ClusterTrustBundle for signerName example.com/s must be named with prefix example.com:s:`}},
		"of a bad signer": {change: func(b bundle) { b.Name, b.Spec.SignerName = "s:x", "s" }, want: []string{`spec.signerName: Invalid value: "s": must be a fully qualified domain and path of the form 'example.com/signer-name'`}},
		"nothing":         {change: bundleOf(""), want: []string{at + "at least one trust anchor must be provided"}},
		"too much":        {change: bundleOf(strings.Repeat("x", 1<<20+1)), want: []string{"spec.trustBundle: Too long: may not be more than 1048576 bytes"}},
		"another block":   {change: bundleOf(strings.ReplaceAll(authority, "CERTIFICATE", "KEY") + authority), want: []string{at + "entry 0 has bad block type: KEY"}},
		"headers":         {change: bundleOf(headed), want: []string{at + "entry 0 has PEM block headers"}},
		"no certificate":  {change: bundleOf(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))), want: []string{at + "entry 0 does not parse as X.509"}},
		"no authority":    {change: bundleOf(signed(t, key, func(c *x509.Certificate) { c.IsCA = false })), want: []string{at + "entry 0 does not have the CA bit set"}},
		"the same twice":  {change: bundleOf(authority + "text\n" + authority), want: []string{at + "duplicate trust anchor (indices [0 1])"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundle()
			tc.change(b)
			errortest.Exactly(t, validateClusterTrustBundle(b), tc.want...)
		})
	}
	stored := newBundle()
	stored.Spec.TrustBundle = "unreadable"
	errortest.Exactly(t, validateClusterTrustBundleUpdate(stored, stored))
	other := newBundle()
	other.Spec.SignerName, other.Spec.TrustBundle = "example.com/s", ""
	errortest.Exactly(t, validateClusterTrustBundleUpdate(other, newBundle()),
		at+"at least one trust anchor must be provided",
		`metadata.name: Invalid value: "x": ClusterTrustBundle for signerName example.com/s must be named with prefix example.com:s:`,
		`spec.signerName: Invalid value: "example.com/s": field is immutable`)
}
