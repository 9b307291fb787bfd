package bus_test

import (
	"bytes"
	"context"
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

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// certify writes a new certificate for the loopback address, signed by a new CA, and returns the
// CA's certificate.
func certify(t *testing.T, certFile, keyFile string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "nats"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, certFile, cert)
	write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return cert
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestClusterWithTLS kills the servers of a cluster one after the other, each while a client may be
// connected to it, and restarts them with certificates of another CA. The client moves to another
// server, and accepts the new CA from its CA file, which has been updated by then.
func TestClusterWithTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, caFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	old := certify(t, certFile, keyFile)
	write(t, caFile, old)
	servers := bustest.NewClusterWith(t, 3, fmt.Sprintf("tls { cert_file: %q, key_file: %q, timeout: 10 }", certFile, keyFile))
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	connect := func() *bus.Conn {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		conn, err := bus.Connect(ctx, bus.Config{URLs: urls, Name: "test", CAFile: caFile, MaxReconnectDelay: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	speaks, hears := connect(), connect()
	heard := make(chan string, 10_000)
	sub, err := hears.Subscribe(t.Context(), "news", func(m bus.Message) { heard <- string(m.Data) })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	// Messages sent during a reconnect may be lost; later ones arrive.
	arrives := func(what string) {
		t.Helper()
		deadline := time.After(2 * time.Minute)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if err := speaks.Publish(t.Context(), "news", []byte(what)); err != nil {
				t.Logf("publishing %s: %v", what, err)
			}
			select {
			case got := <-heard:
				if got == what {
					return
				}
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%s did not arrive", what)
			}
		}
	}
	arrives("at first")
	renewed := certify(t, certFile, keyFile)
	write(t, caFile, bytes.Join([][]byte{old, renewed}, nil))
	for i, s := range servers {
		s.Stop()
		arrives(fmt.Sprint("without ", i))
		s.Start()
		arrives(fmt.Sprint("with again ", i))
	}
	if speaks.Reconnects() == 0 || hears.Reconnects() == 0 {
		t.Errorf("the clients reconnected %d and %d times, though every server was restarted", speaks.Reconnects(), hears.Reconnects())
	}
	// Only the new CA is left now, and clients that connect know it.
	write(t, caFile, renewed)
	connect()
}
