package serviceaccounttoken

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/tokenkey"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// plane runs the controller with a key.
func plane(t *testing.T, key *ecdsa.PrivateKey, objs ...scheme.Object) *controltest.Plane {
	t.Helper()
	signer, _, err := tokenkey.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	p := controltest.New(t, objs...)
	p.Allow("get update /serviceaccounts", "update delete /secrets")
	p.Declare(func(d controller.Deps) *controller.Spec { return New(d, &Signer{signer}, []byte("CA")) })
	p.Start()
	settle()
	return p
}

func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func account(uid types.UID, secrets ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: uid}}
	for _, name := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
	}
	return a
}

// token returns a Secret for the token of robot. Data are pairs of keys and values.
func token(name string, uid types.UID, data ...string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	if uid != "" {
		s.Annotations[corev1.ServiceAccountUIDKey] = string(uid)
	}
	for i := 0; i < len(data); i += 2 {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[data[i]] = []byte(data[i+1])
	}
	return s
}

// full returns a Secret that lacks nothing.
func full(name string, uid types.UID) *corev1.Secret {
	return token(name, uid, "token", "ABC", "ca.crt", "CA", "namespace", "ns")
}

// opaque returns a Secret of another type, which is named as a token is.
func opaque() *corev1.Secret {
	s := token("s", "a1")
	s.Type = corev1.SecretTypeOpaque
	return s
}

// TestSecrets checks what becomes of one Secret with or without its service account. The cases are those of
// Kubernetes.
func TestSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		account *corev1.ServiceAccount
		secret  *corev1.Secret
		want    map[string]string // the data; nil if the Secret is deleted
	}{
		"full":                       {account("a1"), full("s", "a1"), map[string]string{"token": "ABC", "ca.crt": "CA", "namespace": "ns"}},
		"without data":               {account("a1"), token("s", "a1"), map[string]string{"token": "signed", "ca.crt": "CA", "namespace": "ns"}},
		"that nobody has filled yet": {account("a1"), token("s", ""), map[string]string{"token": "signed", "ca.crt": "CA", "namespace": "ns"}},
		"without a token":            {account("a1"), token("s", "a1", "ca.crt", "CA", "namespace", "ns", "mine", "x"), map[string]string{"token": "signed", "ca.crt": "CA", "namespace": "ns", "mine": "x"}},
		"without a certificate":      {account("a1"), token("s", "a1", "token", "ABC", "namespace", "ns"), map[string]string{"token": "ABC", "ca.crt": "CA", "namespace": "ns"}},
		"with another certificate":   {account("a1"), token("s", "a1", "token", "ABC", "ca.crt", "other", "namespace", "ns"), map[string]string{"token": "ABC", "ca.crt": "CA", "namespace": "ns"}},
		"without a namespace":        {account("a1"), token("s", "a1", "token", "ABC", "ca.crt", "CA"), map[string]string{"token": "ABC", "ca.crt": "CA", "namespace": "ns"}},
		"with another namespace":     {account("a1"), token("s", "a1", "token", "ABC", "ca.crt", "CA", "namespace", "custom"), map[string]string{"token": "ABC", "ca.crt": "CA", "namespace": "custom"}},
		"of no account":              {nil, full("s", "a1"), nil},
		"unfilled, of no account":    {nil, token("s", ""), nil},
		"of an account of before":    {account("a2"), full("s", "a1"), nil},
		"of another type":            {nil, opaque(), map[string]string{}},
	} {
		for _, first := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				key := newKey(t)
				var objs []scheme.Object
				if c.account != nil {
					objs = append(objs, c.account.DeepCopy())
				}
				if first {
					objs = append(objs, c.secret.DeepCopy())
				}
				p := plane(t, key, objs...)
				if !first {
					p.Load(c.secret.DeepCopy())
					settle()
				}
				secrets := controltest.List[*corev1.Secret](p)
				if len(secrets) == 0 || c.want == nil {
					if len(secrets) > 0 || c.want != nil {
						t.Errorf("%s: got the Secrets %+v, want %v", name, secrets, c.want)
					}
					return
				}
				got := map[string]string{}
				for k, v := range secrets[0].Data {
					got[k] = string(v)
				}
				if c.want["token"] == "signed" {
					check(t, got["token"], key)
					got["token"] = "signed"
					want := map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: "a1"}
					if !maps.Equal(secrets[0].Annotations, want) {
						t.Errorf("%s: got annotations %v", name, secrets[0].Annotations)
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			})
		}
	}
}

// check checks the claims and the header of a token of robot in the Secret s.
func check(t *testing.T, token string, key *ecdsa.PrivateKey) {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatalf("%q: %v", token, err)
	}
	var got map[string]any
	if err := parsed.Claims(key.Public(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:ns:robot",
		"kubernetes.io/serviceaccount/namespace": "ns", "kubernetes.io/serviceaccount/secret.name": "s",
		"kubernetes.io/serviceaccount/service-account.name": "robot", "kubernetes.io/serviceaccount/service-account.uid": "a1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if id := parsed.Headers[0].KeyID; len(id) != 43 {
		t.Errorf("the key's ID is %q, want a digest", id)
	}
}

// names returns the names of all Secrets.
func names(p *controltest.Plane) []string {
	var got []string
	for _, secret := range controltest.List[*corev1.Secret](p) {
		got = append(got, secret.Name)
	}
	slices.Sort(got)
	return got
}

func TestTokensGoWithTheirAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := full("of-another", "b1")
		other.Annotations[corev1.ServiceAccountNameKey] = "other"
		another := account("b1")
		another.Name = "other"
		plain := opaque()
		plain.Name = "opaque"
		p := plane(t, newKey(t), account("a1"), another, full("one", "a1"), token("two", ""), other, plain)
		p.Remove(account("a1"))
		settle()
		if got := names(p); !slices.Equal(got, []string{"of-another", "opaque"}) {
			t.Errorf("got %q", got)
		}
	})
}

// TestAnAccountThatIsReplaced checks that the next account of a name does not inherit the tokens.
func TestAnAccountThatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, newKey(t), account("a1"), token("one", ""))
		p.Remove(account("a1"))
		p.Load(account("a2"))
		p.Load(token("two", ""))
		settle()
		if got := names(p); !slices.Equal(got, []string{"two"}) {
			t.Errorf("got %q", got)
		}
		if uid := controltest.Get[*corev1.Secret](p, "ns", "two").Annotations[corev1.ServiceAccountUIDKey]; uid != "a2" {
			t.Errorf("the token is of the account %s", uid)
		}
	})
}

// TestDeletedTokensAreUnlisted checks which deleted Secrets leave their service account's list.
func TestDeletedTokensAreUnlisted(t *testing.T) {
	for name, c := range map[string]struct {
		listed []string
		secret *corev1.Secret
		want   []string
	}{
		"listed":                  {[]string{"x", "s", "missing"}, full("s", "a1"), []string{"x", "missing"}},
		"listed twice":            {[]string{"s", "s"}, full("s", "a1"), nil},
		"not listed":              {[]string{"x"}, full("s", "a1"), []string{"x"}},
		"of another type":         {[]string{"s"}, opaque(), []string{"s"}},
		"of an account of before": {[]string{"s"}, full("s", "a0"), []string{"s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := plane(t, newKey(t), account("a1", c.listed...))
			conflicts := 0
			p.Fail(func(call client.Call) error {
				if call.Kind.Kind == "ServiceAccount" && call.Verb == "update" && conflicts < 3 {
					conflicts++
					return apierrors.NewConflict(corev1.Resource("serviceaccounts"), "robot", errors.New("another was faster"))
				}
				if call.Verb == "delete" {
					return errors.New("not now") // The test itself deletes.
				}
				return nil
			})
			p.Load(c.secret)
			settle()
			p.Remove(c.secret)
			settle()
			var got []string
			for _, ref := range controltest.Get[*corev1.ServiceAccount](p, "ns", "robot").Secrets {
				got = append(got, ref.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		})
	}
}

// TestAnAccountThatTheCacheLacks checks that no token is deleted because a cache is late.
func TestAnAccountThatTheCacheLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey(t)
		signer, _, err := tokenkey.NewSigner(key)
		if err != nil {
			t.Fatal(err)
		}
		p := controltest.NewLate(t, "ServiceAccount", 30*time.Second)
		p.Declare(func(d controller.Deps) *controller.Spec { return New(d, &Signer{signer}, []byte("CA")) })
		p.Start()
		settle()
		p.Load(account("a1"))
		p.Load(token("s", ""))
		time.Sleep(10 * time.Second)
		check(t, string(controltest.Get[*corev1.Secret](p, "ns", "s").Data["token"]), key)
	})
}

// TestAnotherTerm checks that a new term finds what the last one has not done, and writes nothing else.
func TestAnotherTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signer, _, err := tokenkey.NewSigner(newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		p := controltest.New(t, account("a1"), token("one", ""))
		runner := p.Runner(func(d controller.Deps) *controller.Spec { return New(d, &Signer{signer}, []byte("CA")) })
		p.Start()
		writes := 0
		p.Fail(func(call client.Call) error {
			if call.Verb == "update" {
				writes++
			}
			return nil
		})
		for term := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := runner.Run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			p.Load(token("more"+strings.Repeat("x", term), ""))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := runner.Run(ctx); err != nil {
			t.Error(err)
		}
		for _, secret := range controltest.List[*corev1.Secret](p) {
			if len(secret.Data["token"]) == 0 {
				t.Errorf("%s has no token", secret.Name)
			}
		}
		if writes != 3 {
			t.Errorf("got %d writes, want one for each Secret", writes)
		}
	})
}

func TestSigningKeys(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, kind string, der []byte, err error) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := map[string]string{
		file("rsa", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil): "RS256",
		file("garbage", "EC PRIVATE KEY", []byte("x"), nil):                      "",
		file("public", "PUBLIC KEY", []byte("x"), nil):                           "",
		filepath.Join(dir, "missing"):                                            "",
	}
	for curve, algorithm := range map[elliptic.Curve]string{elliptic.P224(): "", elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		files[file(curve.Params().Name, "PRIVATE KEY", der, err)] = algorithm
	}
	// Openssl writes the parameters of the curve before the key.
	p256 := filepath.Join(dir, "P-256")
	data, err := os.ReadFile(p256)
	if err != nil {
		t.Fatal(err)
	}
	data = append(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte("x")}), data...)
	if err := os.WriteFile(p256, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, algorithm := range files {
		signer, err := NewSigner(path)
		if algorithm == "" {
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: got the error %v", path, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		signed, err := signer.token(account("a1"), token("s", ""))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := jwt.ParseSigned(string(signed), []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)})
		if err != nil || parsed.Headers[0].Algorithm != algorithm {
			t.Errorf("%s: %v, want %s", path, err, algorithm)
		}
	}
}
