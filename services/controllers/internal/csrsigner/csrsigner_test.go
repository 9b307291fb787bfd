package csrsigner

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// files are the files of an authority.
type files struct{ cert, key string }

// write creates an authority with the given key and validity, and writes it into the files.
func (f files) write(t *testing.T, name string, life time.Duration, key crypto.Signer) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, f.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	put(t, f.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func filesIn(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")}
}

func ecKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// approved returns a node's approved request for its client certificate, with changes.
func approved(t *testing.T, key crypto.Signer, change func(*csr, *x509.CertificateRequest)) *csr {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
	request := &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue},
		}},
	}
	if change != nil {
		change(request, template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	if request.Spec.Request == nil {
		request.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	return request
}

// plane runs the controller.
func plane(t *testing.T, f files, duration time.Duration, objs ...*csr) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch delete certificates.k8s.io/certificatesigningrequests",
		"update certificates.k8s.io/certificatesigningrequests/status", controltest.Events)
	authority, err := NewAuthority(f.cert, f.key, p.Config.Logger)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objs {
		p.Load(obj)
	}
	p.Declare(func(d controller.Deps) *controller.Spec { return New(d, authority, duration) })
	p.Start()
	return p
}

// issued returns the certificate of a request; nil if it has none.
func issued(t *testing.T, p *controltest.Plane, name string) *x509.Certificate {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	text := controltest.Get[*csr](p, "", name).Status.Certificate
	if len(text) == 0 {
		return nil
	}
	block, rest := pem.Decode(text)
	if block == nil || len(rest) > 0 {
		t.Fatalf("got certificate %s, want one PEM block", text)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestSigned(t *testing.T) {
	rsaCA, ecCA, ec, rsa := rsaKey(t), ecKey(t), ecKey(t), rsaKey(t)
	usages := func(list ...certificatesv1.KeyUsage) func(*csr, *x509.CertificateRequest) {
		return func(r *csr, _ *x509.CertificateRequest) { r.Spec.Usages = list }
	}
	for name, tc := range map[string]struct {
		ca, key crypto.Signer
		change  func(*csr, *x509.CertificateRequest)
		plain   x509.KeyUsage
		purpose []x509.ExtKeyUsage
		names   []string
	}{
		"a node's": {ca: ecCA, key: ec, plain: x509.KeyUsageDigitalSignature, purpose: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		"a node's with an RSA key": {ca: ecCA, key: rsa, change: usages(certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature),
			plain: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, purpose: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		"by an RSA authority": {ca: rsaCA, key: ec, plain: x509.KeyUsageDigitalSignature, purpose: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		"a person's": {ca: ecCA, key: ec, change: func(r *csr, c *x509.CertificateRequest) {
			r.Spec.SignerName, r.Spec.Usages = certificatesv1.KubeAPIServerClientSignerName, []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}
			c.Subject, c.EmailAddresses = pkix.Name{CommonName: "jane", Organization: []string{"x"}}, []string{"jane@example.com"}
		}, purpose: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, names: []string{"jane@example.com"}},
		"a kubelet's for serving": {ca: ecCA, key: ec, change: func(r *csr, c *x509.CertificateRequest) {
			r.Spec.SignerName = certificatesv1.KubeletServingSignerName
			r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature}
			c.DNSNames, c.IPAddresses = []string{"n1"}, []net.IP{net.IPv4(10, 0, 0, 1)}
		}, plain: x509.KeyUsageDigitalSignature, purpose: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, names: []string{"n1", "10.0.0.1"}},
		"a legacy signer's": {ca: ecCA, key: ec, change: func(r *csr, c *x509.CertificateRequest) {
			r.Spec.SignerName = legacySigner
			r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME, certificatesv1.UsageCertSign, certificatesv1.UsageServerAuth}
			c.Subject = pkix.Name{CommonName: "whatever"}
		}, plain: x509.KeyUsageCertSign, purpose: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageEmailProtection}},
		"asking to be a CA": {ca: ecCA, key: ec, change: func(_ *csr, c *x509.CertificateRequest) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}}
		}, plain: x509.KeyUsageDigitalSignature, purpose: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := filesIn(t)
				ca := f.write(t, "ca", 100*365*day, tc.ca)
				request := approved(t, tc.key, tc.change)
				cert := issued(t, plane(t, f, DefaultDuration, request), "r")
				if cert == nil {
					t.Fatal("no certificate was issued")
				}
				if err := cert.CheckSignatureFrom(ca); err != nil {
					t.Error(err)
				}
				parsed, err := parse(request.Spec.Request)
				if err != nil {
					t.Fatal(err)
				}
				if cert.Subject.String() != parsed.Subject.String() || !tc.key.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(cert.PublicKey) {
					t.Errorf("got subject %v", cert.Subject)
				}
				if cert.IsCA || !cert.BasicConstraintsValid || cert.KeyUsage != tc.plain || !slices.Equal(cert.ExtKeyUsage, tc.purpose) || cert.SerialNumber.Sign() <= 0 {
					t.Errorf("got CA %v, usages %v %v, serial %v", cert.IsCA, cert.KeyUsage, cert.ExtKeyUsage, cert.SerialNumber)
				}
				var names []string
				names = append(append(names, cert.DNSNames...), cert.EmailAddresses...)
				for _, ip := range cert.IPAddresses {
					names = append(names, ip.String())
				}
				if !slices.Equal(names, tc.names) {
					t.Errorf("got names %q, want %q", names, tc.names)
				}
			})
		})
	}
}

func TestRefused(t *testing.T) {
	key := ecKey(t)
	serving := func(change func(*csr, *x509.CertificateRequest)) func(*csr, *x509.CertificateRequest) {
		return func(r *csr, c *x509.CertificateRequest) {
			r.Spec.SignerName = certificatesv1.KubeletServingSignerName
			r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
			c.DNSNames = []string{"n1"}
			change(r, c)
		}
	}
	person := func(list ...certificatesv1.KeyUsage) func(*csr, *x509.CertificateRequest) {
		return func(r *csr, _ *x509.CertificateRequest) {
			r.Spec.SignerName, r.Spec.Usages = certificatesv1.KubeAPIServerClientSignerName, list
		}
	}
	for want, change := range map[string]func(*csr, *x509.CertificateRequest){
		"subject organization is not system:nodes":                  func(_ *csr, c *x509.CertificateRequest) { c.Subject.Organization = []string{"system:masters"} },
		"subject common name does not begin with system:node:":      func(_ *csr, c *x509.CertificateRequest) { c.Subject.CommonName = "n1" },
		"DNS subjectAltNames are not allowed":                       func(_ *csr, c *x509.CertificateRequest) { c.DNSNames = []string{"x"} },
		"Email subjectAltNames are not allowed":                     func(_ *csr, c *x509.CertificateRequest) { c.EmailAddresses = []string{"a@b"} },
		"IP subjectAltNames are not allowed":                        func(_ *csr, c *x509.CertificateRequest) { c.IPAddresses = []net.IP{net.IPv4(1, 2, 3, 4)} },
		"URI subjectAltNames are not allowed":                       func(_ *csr, c *x509.CertificateRequest) { c.URIs = []*url.URL{{Scheme: "a", Host: "b"}} },
		"usages did not match [client auth digital signature key e": func(r *csr, _ *x509.CertificateRequest) { r.Spec.Usages = r.Spec.Usages[:1] },
		"usages did not match [client auth": func(r *csr, _ *x509.CertificateRequest) {
			r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth)
		},
		"DNS or IP subjectAltName is required":                      serving(func(_ *csr, c *x509.CertificateRequest) { c.DNSNames = nil }),
		" URI subjectAltNames are not allowed":                      serving(func(_ *csr, c *x509.CertificateRequest) { c.URIs = []*url.URL{{Scheme: "a", Host: "b"}} }),
		" subject common name does not begin with system:node:":     serving(func(_ *csr, c *x509.CertificateRequest) { c.Subject.CommonName = "n1" }),
		"usages did not match [digital signature key encipherment ": serving(func(r *csr, _ *x509.CertificateRequest) { r.Spec.Usages = r.Spec.Usages[:1] }),
		"invalid usage for client certificate: server auth":         person(certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth),
		"missing required usage for client certificate: client aut": person(certificatesv1.UsageDigitalSignature),
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := filesIn(t)
				f.write(t, "ca", DefaultDuration, ecKey(t))
				p := plane(t, f, DefaultDuration, approved(t, key, change))
				if issued(t, p, "r") != nil {
					t.Fatal("the request was signed")
				}
				got := controltest.Get[*csr](p, "", "r").Status.Conditions
				if len(got) != 2 || got[1].Type != certificatesv1.CertificateFailed || got[1].Status != corev1.ConditionTrue ||
					got[1].Reason != "SignerValidationFailure" || !strings.HasPrefix(got[1].Message, strings.TrimSpace(want)) || got[1].LastUpdateTime.IsZero() {
					t.Errorf("got conditions %+v", got)
				}
				if writes := p.Writes(); len(writes) != 1 {
					t.Errorf("got %d writes", len(writes))
				}
			})
		})
	}
}

// TestLeft checks that the controller does not touch requests that are not its own to sign.
func TestLeft(t *testing.T) {
	key := ecKey(t)
	condition := func(kind certificatesv1.RequestConditionType) func(*csr, *x509.CertificateRequest) {
		return func(r *csr, _ *x509.CertificateRequest) {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue})
		}
	}
	for name, change := range map[string]func(*csr, *x509.CertificateRequest){
		"another's":              func(r *csr, _ *x509.CertificateRequest) { r.Spec.SignerName = "example.com/signer" },
		"not approved":           func(r *csr, _ *x509.CertificateRequest) { r.Status.Conditions = nil },
		"approved, but not true": func(r *csr, _ *x509.CertificateRequest) { r.Status.Conditions[0].Status = corev1.ConditionFalse },
		"denied":                 condition(certificatesv1.CertificateDenied),
		"failed":                 condition(certificatesv1.CertificateFailed),
		"signed":                 func(r *csr, _ *x509.CertificateRequest) { r.Status.Certificate = []byte("x") },
		"no request":             func(r *csr, _ *x509.CertificateRequest) { r.Spec.Request = []byte("x") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := filesIn(t)
				f.write(t, "ca", DefaultDuration, ecKey(t))
				p := plane(t, f, DefaultDuration, approved(t, key, change))
				time.Sleep(time.Minute)
				synctest.Wait()
				if writes := p.Writes(); len(writes) != 0 {
					t.Errorf("got %d writes, want none", len(writes))
				}
			})
		})
	}
}

func TestLife(t *testing.T) {
	key := ecKey(t)
	for name, tc := range map[string]struct {
		asked         int32
		duration, end time.Duration
		authority     time.Duration
	}{
		"the default, from its beginning on": {0, DefaultDuration, DefaultDuration - 5*time.Minute, 2 * DefaultDuration},
		"a short default, from now on":       {0, 7 * time.Hour, 7 * time.Hour, DefaultDuration},
		"what is asked for":                  {3600, DefaultDuration, time.Hour, 2 * DefaultDuration},
		"a long one asked for":               {9 * 3600, DefaultDuration, 9*time.Hour - 5*time.Minute, 2 * DefaultDuration},
		"more than the default":              {2 * 3600, time.Hour, time.Hour, DefaultDuration},
		"too little":                         {60, DefaultDuration, 10 * time.Minute, 2 * DefaultDuration},
		"more than the authority has":        {0, DefaultDuration, day, day},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, began := filesIn(t), time.Now()
				f.write(t, "ca", tc.authority, ecKey(t))
				cert := issued(t, plane(t, f, tc.duration, approved(t, key, func(r *csr, _ *x509.CertificateRequest) {
					if tc.asked != 0 {
						r.Spec.ExpirationSeconds = &tc.asked
					}
				})), "r")
				if cert == nil {
					t.Fatal("the request was not signed")
				}
				if got := cert.NotBefore.Sub(began); got != -5*time.Minute {
					t.Errorf("the validity begins after %v", got)
				}
				if got := cert.NotAfter.Sub(began); got != tc.end {
					t.Errorf("the validity ends after %v, want %v", got, tc.end)
				}
			})
		})
	}
}

// TestTheFilesAreReadAgain checks that changed files are read again, even if they are replaced one
// after the other.
func TestTheFilesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := filesIn(t), filesIn(t)
		first := f.write(t, "first", DefaultDuration, ecKey(t))
		second := other.write(t, "second", DefaultDuration, ecKey(t))
		key := ecKey(t)
		named := func(name string) *csr {
			return approved(t, key, func(r *csr, _ *x509.CertificateRequest) { r.Name = name })
		}
		p := plane(t, f, DefaultDuration, named("one"))
		from := func(name string, ca *x509.Certificate) {
			t.Helper()
			if cert := issued(t, p, name); cert == nil || cert.CheckSignatureFrom(ca) != nil {
				t.Errorf("%s: got certificate %v, want one signed by the current authority", name, cert)
			}
		}
		from("one", first)
		if err := os.Rename(other.cert, f.cert); err != nil {
			t.Fatal(err)
		}
		p.Load(named("between"))
		from("between", first)
		if err := os.Rename(other.key, f.key); err != nil {
			t.Fatal(err)
		}
		p.Load(named("two"))
		from("two", second)
		if err := os.Remove(f.key); err != nil {
			t.Fatal(err)
		}
		p.Load(named("three"))
		from("three", second)
	})
}

// TestAnAuthorityThatHasEnded checks that an expired authority signs nothing, and that the
// controller keeps trying.
func TestAnAuthorityThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, key := filesIn(t), ecKey(t)
		f.write(t, "ca", -time.Minute, ecKey(t))
		p := plane(t, f, DefaultDuration, approved(t, key, nil))
		if issued(t, p, "r") != nil || len(p.Writes()) != 0 {
			t.Errorf("an expired authority signs: got %d writes, want none", len(p.Writes()))
		}
		f.write(t, "ca", DefaultDuration, ecKey(t))
		time.Sleep(time.Hour)
		if issued(t, p, "r") == nil {
			t.Error("the controller does not sign with the new authority")
		}
	})
}

func TestAWriteThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, key := filesIn(t), ecKey(t)
		f.write(t, "ca", DefaultDuration, ecKey(t))
		p := plane(t, f, DefaultDuration)
		p.Fail(func(call client.Call) error {
			if call.Subresource == "status" {
				return errors.New("no")
			}
			return nil
		})
		p.Load(approved(t, key, nil))
		if issued(t, p, "r") != nil {
			t.Fatal("the failed write was stored")
		}
		p.Fail(nil)
		time.Sleep(time.Minute)
		if issued(t, p, "r") == nil {
			t.Error("the failed write was not retried")
		}
	})
}

func TestNoAuthority(t *testing.T) {
	f := filesIn(t)
	read := func() error {
		_, err := NewAuthority(f.cert, f.key, nil)
		return err
	}
	expect := func(want string) {
		t.Helper()
		if err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	expect("reading the certificate of the authority")
	f.write(t, "ca", day, ecKey(t))
	if err := read(); err != nil {
		t.Error(err)
	}
	cert, err := os.ReadFile(f.cert)
	if err != nil {
		t.Fatal(err)
	}
	put(t, f.cert, append(slices.Clone(cert), cert...))
	expect("holds 2 certificates")
	put(t, f.cert, []byte("x"))
	expect("holds 0 certificates")
	other := filesIn(t)
	other.write(t, "other", day, ecKey(t))
	put(t, f.cert, cert)
	if err := os.Rename(other.key, f.key); err != nil {
		t.Fatal(err)
	}
	expect("are not a certificate and its key")
	if err := os.Remove(f.key); err != nil {
		t.Fatal(err)
	}
	expect("reading the key of the authority")
	key := ecKey(t)
	f.write(t, "leaf", day, key)
	authority, err := NewAuthority(f.cert, f.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	request, err := parse(approved(t, key, nil).Spec.Request)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := authority.sign(request, nil, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	put(t, f.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf}))
	expect("is not a CA certificate")
}
