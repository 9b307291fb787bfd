package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authgroup "k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// signer is an authority of client certificates.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// sign returns a certificate of a client, or of an authority if by is nil.
func sign(t *testing.T, name string, by *signer, use x509.ExtKeyUsage) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{"team"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	parent, signing := template, key
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage, template.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	} else {
		parent, signing = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signing)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{cert, key}
}

// headersOf are the lists of one configuration: names, user, UID, groups, prefixes.
type headersOf [5][]string

// theirs returns Kubernetes' authenticator of front proxies, client certificates and everybody else.
func (h headersOf) theirs(clients, proxies *signer) authenticator.Request {
	verify := func(by *signer) x509request.VerifyOptionFunc {
		options := x509request.DefaultVerifyOptions()
		options.Roots = x509.NewCertPool()
		options.Roots.AddCert(by.cert)
		return x509request.StaticVerifierFn(options)
	}
	list := func(i int) headerrequest.StaticStringSlice { return h[i] }
	front := headerrequest.NewDynamicVerifyOptionsSecure(verify(proxies), list(0), list(1), list(2), list(3), list(4))
	certificate := x509request.NewDynamic(verify(clients), x509request.CommonNameUserConversion)
	return union.NewFailOnError(authgroup.NewAuthenticatedGroupAdder(union.New(front, certificate)), anonymous.NewAuthenticator(nil))
}

// ours is the same of the apiserver's.
func (h headersOf) ours(t *testing.T, clients, proxies *signer) *authn.Authenticator {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "proxies.crt")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxies.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := authn.NewAuthorities(clients.cert, "", log)
	if err != nil {
		t.Fatal(err)
	}
	others, err := authn.NewAuthorities(nil, path, log)
	if err != nil {
		t.Fatal(err)
	}
	return authn.New(authn.Config{ClientCAs: own, FrontProxy: &authn.FrontProxy{
		Authorities: others, Names: h[0], Headers: authn.UserHeaders{Name: h[1], UID: h[2], Groups: h[3], ExtraPrefixes: h[4]},
	}})
}

// TestFrontProxy compares the user of random requests with Kubernetes': of front proxies and others, with
// headers of every spelling, and with several configurations.
func TestFrontProxy(t *testing.T) {
	clients, proxies := sign(t, "clients", nil, 0), sign(t, "proxies", nil, 0)
	certs := []*x509.Certificate{
		nil, sign(t, "front", proxies, x509.ExtKeyUsageClientAuth).cert, sign(t, "other", proxies, x509.ExtKeyUsageClientAuth).cert,
		sign(t, "front", proxies, x509.ExtKeyUsageServerAuth).cert, sign(t, "front", clients, x509.ExtKeyUsageClientAuth).cert,
	}
	usual := headersOf{{"front"}, {"X-Remote-User"}, {"X-Remote-Uid"}, {"X-Remote-Group"}, {"X-Remote-Extra-"}}
	names := []string{"X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-A", "X-Remote-Extra-A%2fb", "X-Remote-Extra-%zz", "X-Remote-Extra-", "X-User", "X-Team", "X-More-A"}
	values := []string{"", "a", "b", "system:masters", "system:anonymous", "system:unauthenticated", "system:authenticated"}
	random := mathrand.New(mathrand.NewPCG(1, 2))
	seen := map[string]int{}
	for name, h := range map[string]headersOf{
		"usual": usual, "any name": {nil, usual[1], usual[2], usual[3], usual[4]}, "nothing": {},
		"several": {{"x", "other"}, {"x-user", "X-Remote-User"}, nil, {"X-Team", "x-remote-group"}, {"x-more-", "X-Remote-Extra-"}},
	} {
		theirs, ours := h.theirs(clients, proxies), h.ours(t, clients, proxies)
		for range 2000 {
			header := http.Header{}
			for range random.IntN(6) {
				header.Add(names[random.IntN(len(names))], values[random.IntN(len(values))])
			}
			r := &http.Request{Header: header}
			if cert := certs[random.IntN(len(certs))]; cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
			}
			got, ok, err := ours.Authenticate(r.Clone(t.Context()))
			want, accepted, theirErr := theirs.AuthenticateRequest(r.Clone(t.Context()))
			if ok != accepted || (err == nil) != (theirErr == nil) {
				t.Fatalf("%s: %v: got %v, %v, want %v, %v", name, header, ok, err, accepted, theirErr)
			}
			if !ok {
				seen["refused"]++
				continue
			}
			expected := authn.User{Name: want.User.GetName(), UID: want.User.GetUID(), Groups: want.User.GetGroups(), Extra: want.User.GetExtra()}
			// Kubernetes takes headers of the same key in random order.
			if diff := cmp.Diff(expected, got.User, cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Fatalf("%s: %v: %s", name, header, diff)
			}
			if !slices.Equal(expected.Groups, got.User.Groups) {
				t.Fatalf("%s: %v: the groups are %q, want %q", name, header, got.User.Groups, expected.Groups)
			}
			seen[got.User.Name]++
		}
	}
	for _, kind := range []string{"refused", "a", "front", "system:anonymous", "system:masters"} {
		if seen[kind] == 0 {
			t.Errorf("no request was %s's: %v", kind, seen)
		}
	}
}
