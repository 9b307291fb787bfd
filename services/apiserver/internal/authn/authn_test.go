package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, path, "t1,alice,1\nt2,bob,2,\"dev, ops\"\n")
	file, err := NewTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if user, ok, err := file.Lookup("t2"); !ok || err != nil || user.Name != "bob" || !slices.Equal(user.Groups, []string{"dev", "ops"}) {
		t.Errorf("t2 is %+v %v %v", user, ok, err)
	}
	if _, ok, _ := file.Lookup("t3"); ok {
		t.Error("t3 is somebody")
	}
	write(t, path, "t3,carol,3\n")
	if user, ok, err := file.Lookup("t3"); !ok || err != nil || user.Name != "carol" {
		t.Errorf("after a change t3 is %+v %v %v", user, ok, err)
	}
	if _, ok, _ := file.Lookup("t1"); ok {
		t.Error("t1 is still good")
	}
	write(t, path, "t4\n")
	if _, ok, err := file.Lookup("t3"); !ok || err == nil {
		t.Errorf("with a wrong file t3 is known: %v; error %v", ok, err)
	}
	for _, text := range []string{"a,b\n", ",b,c\n", "a,,c\n", "\"a\n"} {
		write(t, path, text)
		if _, err := NewTokenFile(path); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// objects is what tokens are bound to.
type objects struct {
	account *corev1.ServiceAccount
	pod     *corev1.Pod
}

func notFound(name string) error { return apierrors.NewNotFound(corev1.Resource("things"), name) }

func (o *objects) ServiceAccount(_ context.Context, _, name string) (*corev1.ServiceAccount, error) {
	if o.account == nil {
		return nil, notFound(name)
	}
	return o.account, nil
}

func (o *objects) Pod(_ context.Context, _, name string) (*corev1.Pod, error) {
	if o.pod == nil {
		return nil, notFound(name)
	}
	return o.pod, nil
}

func (o *objects) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return nil, notFound(name)
}

func (o *objects) Node(_ context.Context, name string) (*corev1.Node, error) {
	return nil, notFound(name)
}

func newAccounts(t *testing.T, issuer string, key *ecdsa.PrivateKey, objs Objects) *ServiceAccounts {
	t.Helper()
	accounts, err := NewServiceAccounts(issuer, key, objs)
	if err != nil {
		t.Fatal(err)
	}
	return accounts
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestServiceAccountTokens(t *testing.T) {
	key := newKey(t)
	objs := &objects{
		account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "a1"}},
		pod:     &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p1"}},
	}
	accounts := newAccounts(t, "https://issuer", key, objs)
	bound := Bound{
		Namespace: "ns", ServiceAccount: Reference{Name: "robot", UID: "a1"},
		Pod: &Reference{Name: "p", UID: "p1"}, Node: &Reference{Name: "n", UID: "n1"},
	}
	issue := func(from *ServiceAccounts, bound Bound, audiences ...string) string {
		t.Helper()
		token, expires, err := from.Issue(bound, audiences, time.Hour)
		if err != nil || !expires.After(time.Now()) {
			t.Fatalf("issued until %v: %v", expires, err)
		}
		return token
	}
	token := issue(accounts, bound)
	user, ok, err := accounts.Verify(t.Context(), token)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if user.Name != "system:serviceaccount:ns:robot" || user.UID != "a1" || !slices.Contains(user.Groups, "system:serviceaccounts:ns") ||
		user.Extra[ExtraPodName][0] != "p" || user.Extra[ExtraPodUID][0] != "p1" || user.Extra[ExtraNodeName][0] != "n" {
		t.Errorf("the user is %+v", user)
	}
	late := newAccounts(t, "https://issuer", key, objs)
	late.now = func() time.Time { return time.Now().Add(time.Hour + 2*leeway) }
	gone := newAccounts(t, "https://issuer", key, &objects{})
	podGone := newAccounts(t, "https://issuer", key, &objects{account: objs.account})
	anew := newAccounts(t, "https://issuer", key, &objects{account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{UID: "a2"}}})
	for name, c := range map[string]struct {
		by    *ServiceAccounts
		token string
		ours  bool
	}{
		"too late":                   {late, token, true},
		"service account gone":       {gone, token, true},
		"pod gone":                   {podGone, token, true},
		"service account made anew":  {anew, token, true},
		"for another audience":       {accounts, issue(accounts, bound, "vault"), true},
		"signed by another key":      {accounts, issue(newAccounts(t, "https://issuer", newKey(t), objs), bound), true},
		"changed":                    {accounts, token[:len(token)-4] + "AAAA", true},
		"of another issuer":          {accounts, issue(newAccounts(t, "https://other", key, objs), bound), false},
		"not a JWT":                  {accounts, "abc", false},
		"unsigned":                   {accounts, "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lzc3VlciJ9.", false},
		"bound to no secret present": {accounts, issue(accounts, Bound{Namespace: "ns", ServiceAccount: bound.ServiceAccount, Secret: &Reference{Name: "s"}}), true},
	} {
		user, ok, err := c.by.Verify(t.Context(), c.token)
		if ok != c.ours || c.ours && !errors.Is(err, ErrInvalidToken) || user.Name != "" {
			t.Errorf("%s: %+v %v %v", name, user, ok, err)
		}
	}
}

func TestAuthenticateHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, path, "secret,alice,1\n")
	file, err := NewTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := &Authenticator{TokenFiles: []*TokenFile{file}, ServiceAccounts: newAccounts(t, "https://issuer", newKey(t), &objects{})}
	for header, want := range map[string]string{
		"": Anonymous, "Basic abc": Anonymous, "Bearer secret": "alice", "bearer  secret ": "alice", "Bearer wrong": "", "Bearer ": "", "Bearer": "",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		user, err := a.Authenticate(r)
		if user.Name != want || (want == "") != (err != nil) {
			t.Errorf("%q: %+v %v, want %q", header, user, err, want)
		}
		if want == "alice" && !slices.Contains(user.Groups, GroupAuthenticated) {
			t.Errorf("%q: groups %v", header, user.Groups)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("t,u,1,\"a,b\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		users, err := parseTokens(text)
		if err != nil {
			return
		}
		for _, user := range users {
			if user.Name == "" || slices.Contains(user.Groups, "") {
				t.Errorf("%q gives %+v", text, user)
			}
		}
	})
}
