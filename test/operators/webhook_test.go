//go:build operators

package operators

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/test/e2e/plane"
)

// endpoints leads from a Service to a process of this machine.
const endpoints = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[2]s, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: %[3]s
endpoints: [{addresses: [%[4]q], conditions: {ready: true}}]
ports: [{name: %[5]s, port: %[6]s, protocol: TCP}]
`

// endpoint leads from a port of a Service to a port of this machine.
func (c *cluster) endpoint(t *testing.T, namespace, service, name, port string) {
	t.Helper()
	address, err := utilnet.ChooseHostInterface()
	if err != nil {
		t.Fatalf("endpoints must not be loopback addresses, and this machine has no other: %v", err)
	}
	family := "IPv4"
	if address.To4() == nil {
		family = "IPv6"
	}
	c.Must(t, fmt.Sprintf(endpoints, namespace, service, family, address, name, port), "apply", "--server-side", "-f", "-")
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(plane.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serving writes a serving certificate and its key into a folder, and returns the certificate, which is
// its own authority.
func serving(t *testing.T, folder, host string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": secret} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate
}
