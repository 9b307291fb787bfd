package systemobjects_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/systemobjects"
)

const (
	authentication = "extension-apiserver-authentication"
	tracking       = "kube-apiserver-legacy-service-account-token-tracking"
)

// authority returns a certificate that expired left ago, or expires in left, and the same as PEM.
func authority(t *testing.T, name string, left time.Duration) (*x509.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(left), IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestPublishedAuthentication checks what is published beside what is already there.
func TestPublishedAuthentication(t *testing.T) {
	t.Parallel()
	own, ownPEM := authority(t, "own", time.Hour)
	_, other := authority(t, "other", time.Hour)
	_, young := authority(t, "expired just now", -time.Minute)
	_, old := authority(t, "expired", -10*time.Minute)
	full := map[string]string{
		"client-ca-file": other + ownPEM, "requestheader-client-ca-file": other,
		"requestheader-allowed-names": `["front","back"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`, "requestheader-username-headers": `["X-Remote-User"]`,
	}
	with := func(changes ...string) map[string]string {
		data := maps.Clone(full)
		for i := 0; i < len(changes); i += 2 {
			data[changes[i]] = changes[i+1]
			if changes[i+1] == "" {
				delete(data, changes[i])
			}
		}
		return data
	}
	w := registrytest.New(t)
	w.Objects.ClientCAs = func() []*x509.Certificate { return []*x509.Certificate{own} }
	if found := w.Etcd.Values(t, "/registry/configmaps/kube-system/"+authentication); len(found) != 0 {
		t.Error("a server without authorities published some")
	}
	for _, c := range []struct {
		name         string
		before, want map[string]string
	}{
		{"nothing yet", nil, map[string]string{"client-ca-file": ownPEM}},
		{"complete", full, full},
		{"another server's", with("client-ca-file", other), full},
		{"twice", with("client-ca-file", other+ownPEM+other, "requestheader-allowed-names", `["front","back","front"]`), full},
		{"expired", with("client-ca-file", old+other), full},
		{"expired just now", with("client-ca-file", young), with("client-ca-file", young+ownPEM)},
		{"a list is missing", with("requestheader-allowed-names", ""), with("requestheader-allowed-names", "[]")},
		{"no UIDs", with("requestheader-uid-headers", "[]"), with("requestheader-uid-headers", "")},
		{"no front proxy", with("requestheader-client-ca-file", old), map[string]string{"client-ca-file": other + ownPEM}},
		{"unknown keys", map[string]string{"mine": "x"}, map[string]string{"client-ca-file": ownPEM}},
		{"no certificates", with("client-ca-file", "x"), with("client-ca-file", "x")},
		{"no list", with("requestheader-group-headers", "x"), with("requestheader-group-headers", "x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.Etcd.DeletePrefix(t, "/registry/configmaps/kube-system/"+authentication)
			if c.before != nil {
				registrytest.Create(w, "kube-system", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: authentication}, Data: c.before})
			}
			if err := w.Objects.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := registrytest.Get[*corev1.ConfigMap](w, "kube-system", authentication)
			if !maps.Equal(got.Data, c.want) {
				t.Errorf("got  %q\nwant %q", got.Data, c.want)
			}
		})
	}
}

// TestPublishedAuthenticationTooLarge expects that a ConfigMap without room starts anew.
func TestPublishedAuthenticationTooLarge(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	own, ownPEM := authority(t, "own", time.Hour)
	_, other := authority(t, "other", time.Hour)
	names := `["` + strings.Repeat("x", 1<<20-len(other)-150) + `"]`
	registrytest.Create(w, "kube-system", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: authentication}, Data: map[string]string{
		"requestheader-client-ca-file": other, "requestheader-allowed-names": names,
	}})
	w.Objects.ClientCAs = func() []*x509.Certificate { return []*x509.Certificate{own} }
	for range 2 {
		if err := w.Objects.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := registrytest.Get[*corev1.ConfigMap](w, "kube-system", authentication)
	if want := map[string]string{"client-ca-file": ownPEM}; !maps.Equal(got.Data, want) {
		t.Errorf("got %d keys, want %q", len(got.Data), want)
	}
}

func TestPublishedTracking(t *testing.T) {
	t.Parallel()
	const key = "/registry/configmaps/kube-system/" + tracking
	before := time.Now().UTC().Format(time.DateOnly)
	w := registrytest.New(t)
	today := func(what string) {
		t.Helper()
		since := registrytest.Get[*corev1.ConfigMap](w, "kube-system", tracking).Data["since"]
		if after := time.Now().UTC().Format(time.DateOnly); since != before && since != after {
			t.Errorf("%s: tokens are tracked since %q", what, since)
		}
	}
	ensure := func(o *systemobjects.Objects) {
		t.Helper()
		if err := o.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	change := func(data map[string]string) {
		t.Helper()
		if _, err := registrytest.Update(w, "kube-system", tracking, "", func(c *corev1.ConfigMap) { c.Data = data }); err != nil {
			t.Fatal(err)
		}
		ensure(w.Objects)
	}
	today("at first")
	change(map[string]string{"since": "2023-04-05", "more": "x"})
	if got := registrytest.Get[*corev1.ConfigMap](w, "kube-system", tracking).Data; got["since"] != "2023-04-05" {
		t.Errorf("a valid day was replaced by %v", got)
	}
	change(map[string]string{"since": "05.04.2023", "more": "x"})
	today("after a day that is none")
	if got := registrytest.Get[*corev1.ConfigMap](w, "kube-system", tracking).Data; got["more"] != "x" {
		t.Errorf("further data was lost: %v", got)
	}
	change(nil)
	today("without data")
	w.Etcd.DeletePrefix(t, key)
	ensure(w.Objects)
	if len(w.Etcd.Values(t, key)) != 0 {
		t.Error("a deleted ConfigMap was created again at once; servers that delete it would race")
	}
	another, err := systemobjects.New(w.Objects.Config)
	if err != nil {
		t.Fatal(err)
	}
	ensure(another)
	today("by another server")
}

// TestPublishedFrontProxy checks that the authority of front proxies and its lists are published beside what
// is already there, as they are at the time.
func TestPublishedFrontProxy(t *testing.T) {
	t.Parallel()
	own, ownPEM := authority(t, "own", time.Hour)
	next, nextPEM := authority(t, "next", time.Hour)
	_, other := authority(t, "other", time.Hour)
	now := []*x509.Certificate{own}
	proxy := &systemobjects.FrontProxy{
		CAs: func() []*x509.Certificate { return now }, AllowedNames: []string{"front", "own"}, UsernameHeaders: []string{"X-Remote-User"},
		UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraHeaderPrefixes: []string{"X-Remote-Extra-"},
	}
	mine := map[string]string{
		"requestheader-client-ca-file": ownPEM, "requestheader-allowed-names": `["front","own"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`, "requestheader-username-headers": `["X-Remote-User"]`,
	}
	theirs := map[string]string{
		"requestheader-client-ca-file": other, "requestheader-allowed-names": `["back","front"]`, "requestheader-extra-headers-prefix": `["X-Extra-"]`,
		"requestheader-group-headers": `[]`, "requestheader-username-headers": `["X-User"]`,
	}
	both := map[string]string{
		"requestheader-client-ca-file": other + ownPEM, "requestheader-allowed-names": `["back","front","own"]`,
		"requestheader-extra-headers-prefix": `["X-Extra-","X-Remote-Extra-"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
		"requestheader-uid-headers": `["X-Remote-Uid"]`, "requestheader-username-headers": `["X-User","X-Remote-User"]`,
	}
	w := registrytest.New(t)
	w.Objects.FrontProxy = proxy
	published := func(what string, want map[string]string) {
		t.Helper()
		if err := w.Objects.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := registrytest.Get[*corev1.ConfigMap](w, "kube-system", authentication).Data; !maps.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
		}
	}
	published("nothing yet", mine)
	published("again", mine)
	now = []*x509.Certificate{next}
	changed := maps.Clone(mine)
	changed["requestheader-client-ca-file"] = ownPEM + nextPEM
	published("another authority", changed)
	now = []*x509.Certificate{own}
	if _, err := registrytest.Update(w, "kube-system", authentication, "", func(c *corev1.ConfigMap) { c.Data = theirs }); err != nil {
		t.Fatal(err)
	}
	published("beside another server's", both)
	proxy.UIDHeaders, proxy.AllowedNames = nil, nil
	w.Etcd.DeletePrefix(t, "/registry/configmaps/kube-system/"+authentication)
	without := maps.Clone(mine)
	delete(without, "requestheader-uid-headers")
	without["requestheader-allowed-names"] = "[]"
	published("any name, and no UIDs", without)
}
