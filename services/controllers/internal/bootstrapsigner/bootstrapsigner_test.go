package bootstrapsigner

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func token(id string, life time.Duration) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-signing": []byte("true"),
			"expiration": []byte(time.Now().Add(life).Format(time.RFC3339)),
		},
	}
}

func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch /secrets", "get list watch /configmaps", "update /configmaps", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

// expect checks the keys of the ConfigMap a second from now, and returns its data.
func expect(t *testing.T, p *controltest.Plane, when string, want ...string) map[string]string {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	data := controltest.Get[*corev1.ConfigMap](p, "kube-public", "cluster-info").Data
	if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, want) {
		t.Errorf("%s: keys %q, want %q", when, got, want)
	}
	return data
}

func TestSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, token("aaaaaa", time.Hour))
		controltest.Create(p, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
			Data:       map[string]string{"kubeconfig": "first", "jws-kubeconfig-gone00": "old"},
		})
		first := expect(t, p, "one token", "jws-kubeconfig-aaaaaa", "kubeconfig")["jws-kubeconfig-aaaaaa"]
		controltest.Create(p, token("bbbbbb", 2*time.Hour))
		expect(t, p, "two tokens", "jws-kubeconfig-aaaaaa", "jws-kubeconfig-bbbbbb", "kubeconfig")
		controltest.Change(p, "kube-public", "cluster-info", func(m *corev1.ConfigMap) { m.Data["kubeconfig"] = "second" })
		second := expect(t, p, "new content", "jws-kubeconfig-aaaaaa", "jws-kubeconfig-bbbbbb", "kubeconfig")["jws-kubeconfig-aaaaaa"]
		if first == second {
			t.Error("the signature did not change with the content")
		}
		controltest.Change(p, "kube-public", "cluster-info", func(m *corev1.ConfigMap) { m.Data["jws-kubeconfig-aaaaaa"] = "forged" })
		if got := expect(t, p, "forged", "jws-kubeconfig-aaaaaa", "jws-kubeconfig-bbbbbb", "kubeconfig")["jws-kubeconfig-aaaaaa"]; got != second {
			t.Errorf("got signature %q, want the restored one", got)
		}
		time.Sleep(time.Hour)
		expect(t, p, "one has expired", "jws-kubeconfig-bbbbbb", "kubeconfig")
		p.Remove(token("bbbbbb", 0))
		expect(t, p, "none is left", "kubeconfig")
	})
}

func TestNothingToSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, token("aaaaaa", time.Hour))
		for _, where := range []metav1.ObjectMeta{
			{Namespace: "kube-public", Name: "cluster-info"}, {Namespace: "default", Name: "cluster-info"}, {Namespace: "kube-public", Name: "x"},
		} {
			m := &corev1.ConfigMap{ObjectMeta: where, Data: map[string]string{"kubeconfig": "c"}}
			if where.Namespace == "kube-public" && where.Name == "cluster-info" {
				m.Data = map[string]string{"other": "o"}
			}
			controltest.Create(p, m)
		}
		expect(t, p, "no kubeconfig", "other")
		if n := len(p.Writes()); n != 4 {
			t.Errorf("got %d writes, want only the test's own 4", n)
		}
	})
}

// TestSignatureIsAJWS verifies a signature with the library that joining programs use. It checks
// the header byte by byte, since those programs compare signatures as text.
func TestSignatureIsAJWS(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	signature, err := sign("the content", "abcdef", secret)
	if err != nil {
		t.Fatal(err)
	}
	header, rest, _ := strings.Cut(signature, "..")
	if raw, err := base64.RawURLEncoding.DecodeString(header); err != nil || string(raw) != `{"alg":"HS256","kid":"abcdef"}` || !json.Valid(raw) {
		t.Errorf("got header %q, %v", raw, err)
	}
	parsed, err := jose.ParseDetached(signature, []byte("the content"), []jose.SignatureAlgorithm{jose.HS256})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed.Verify([]byte(secret)); err != nil {
		t.Errorf("verifying: %v", err)
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.HS256, Key: &jose.JSONWebKey{Key: []byte(secret), KeyID: "abcdef"}},
		&jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"kid": "abcdef"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	other, err := signer.Sign([]byte("the content"))
	if err != nil {
		t.Fatal(err)
	}
	if full, err := other.DetachedCompactSerialize(); err != nil || full != signature {
		t.Errorf("the library signs %q, %v; got %q (%s)", full, err, signature, rest)
	}
}
