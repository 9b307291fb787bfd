package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/tokenkey"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer is also the API's audience in these tests.
const issuer = "https://issuer"

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// objects are the objects that tokens are bound to, by "kind/name".
type objects map[string]metav1.Object

func object[T metav1.Object](o objects, key string) (T, error) {
	found, ok := o[key].(T)
	if !ok {
		return found, apierrors.NewNotFound(corev1.Resource("things"), key)
	}
	return found, nil
}

func (o objects) ServiceAccount(_ context.Context, _, name string) (*corev1.ServiceAccount, error) {
	return object[*corev1.ServiceAccount](o, "account/"+name)
}

func (o objects) Pod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return object[*corev1.Pod](o, "pod/"+name)
}

func (o objects) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return object[*corev1.Secret](o, "secret/"+name)
}

func (o objects) Node(_ context.Context, name string) (*corev1.Node, error) {
	return object[*corev1.Node](o, "node/"+name)
}

func meta(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}
}

// present returns the objects that exist in most tests.
func present() objects {
	return objects{
		"account/robot": &corev1.ServiceAccount{ObjectMeta: meta("robot", "a1")},
		"pod/p":         &corev1.Pod{ObjectMeta: meta("p", "p1")},
		"secret/s":      &corev1.Secret{ObjectMeta: meta("s", "s1")},
		"node/n":        &corev1.Node{ObjectMeta: meta("n", "n1")},
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func local(t testing.TB, key *ecdsa.PrivateKey, further ...tokenkey.Public) TokenKeys {
	t.Helper()
	keys, err := NewLocalKeys(key, further...)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func newAccounts(t testing.TB, cfg ServiceAccountsConfig) *ServiceAccounts {
	t.Helper()
	if len(cfg.Issuers) == 0 {
		cfg.Issuers = []string{issuer}
	}
	accounts, err := NewServiceAccounts(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return accounts
}

// at returns accounts whose clock is shifted by from.
func (s *ServiceAccounts) at(from time.Duration) *ServiceAccounts {
	moved := *s
	moved.now = func() time.Time { return time.Now().Add(from) }
	return &moved
}
