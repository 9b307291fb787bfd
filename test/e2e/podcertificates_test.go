package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/e2e/plane"
	"github.com/garboard/garboard/test/e2e/podcertificates"
)

// TestPodCertificates: a signer issues the certificate that a PodCertificateRequest asks for, and leaves
// requests to other signers alone.
func TestPodCertificates(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := podcertificates.New("example.com/test")
	if err != nil {
		t.Fatal(err)
	}
	requests := client.Of[*certificatesv1.PodCertificateRequest](api)
	for name, signerName := range map[string]string{"mine": "example.com/test", "of-another": "example.com/other"} {
		if _, err := requests.Create(ctx, &certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: signerName, PodName: "p", PodUID: "p1", ServiceAccountName: "robot", ServiceAccountUID: "r1",
				NodeName: "n", NodeUID: "n1", StubPKCS10Request: stub,
			},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	plane.Eventually(t, "the request to be signed", func(ctx context.Context) error {
		if n, err := signer.SignPending(ctx, api); err != nil || n != 1 {
			return fmt.Errorf("%d requests were signed: %w", n, err)
		}
		return nil
	})
	if n, err := signer.SignPending(ctx, api); err != nil || n != 0 {
		t.Errorf("%d requests were signed again: %v", n, err)
	}
	request, err := requests.Get(ctx, "default", "mine", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(request.Status.CertificateChain))
	if block == nil {
		t.Fatalf("there is no certificate: %+v", request.Status)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(signer.Authority())
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots}); err != nil || !key.PublicKey.Equal(cert.PublicKey) {
		t.Errorf("the certificate is for %v: %v", cert.PublicKey, err)
	}
	if len(cert.URIs) != 1 || cert.URIs[0].String() != "spiffe://cluster.local/ns/default/sa/robot" {
		t.Errorf("the certificate is for %v", cert.URIs)
	}
	if other, err := requests.Get(ctx, "default", "of-another", metav1.GetOptions{}); err != nil || len(other.Status.Conditions) > 0 {
		t.Errorf("another signer's request has the status %+v: %v", other.Status, err)
	}
}
