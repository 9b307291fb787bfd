package tokencleaner

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func token(name, expiration string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{"expiration": []byte(expiration)},
	}
}

func in(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }

func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch delete /secrets", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

// expect checks which Secrets exist a second from now.
func expect(t *testing.T, p *controltest.Plane, when string, want ...string) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	got := []string{}
	for _, secret := range controltest.List[*corev1.Secret](p) {
		got = append(got, secret.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got Secrets %q, want %q", when, got, want)
	}
}

func TestExpiredTokensAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		elsewhere, other := token("elsewhere", in(-time.Hour)), token("other-type", in(-time.Hour))
		elsewhere.Namespace, other.Type = "default", corev1.SecretTypeOpaque
		for _, secret := range []*corev1.Secret{
			token("past", in(-time.Hour)), token("for-ever", ""), token("garbled", "soon"), elsewhere, other,
			token("an-hour", in(time.Hour)), token("prolonged", in(time.Hour)),
		} {
			controltest.Create(p, secret)
		}
		expect(t, p, "at once", "an-hour", "elsewhere", "for-ever", "other-type", "prolonged")
		controltest.Change(p, "kube-system", "prolonged", func(s *corev1.Secret) { s.Data["expiration"] = []byte(in(3 * time.Hour)) })
		expect(t, p, "prolonged", "an-hour", "elsewhere", "for-ever", "other-type", "prolonged")
		time.Sleep(time.Hour)
		expect(t, p, "after an hour", "elsewhere", "for-ever", "other-type", "prolonged")
		time.Sleep(2 * time.Hour)
		expect(t, p, "after three hours", "elsewhere", "for-ever", "other-type")
	})
}

func TestADeletionThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		failures := 0
		p.Fail(func(call client.Call) error {
			if call.Verb == "delete" && failures < 3 {
				failures++
				return errors.New("not now")
			}
			return nil
		})
		controltest.Create(p, token("past", in(-time.Hour)))
		expect(t, p, "after the failures")
		if failures != 3 {
			t.Errorf("got %d failures", failures)
		}
	})
}

func TestAnotherOfTheSameNameIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Fail(func(call client.Call) error {
			if call.Verb == "delete" {
				// Another client replaces the token with a valid one between the check and the
				// deletion.
				p.Fail(nil)
				p.Remove(token("t", ""))
				controltest.Create(p, token("t", in(time.Hour)))
			}
			return nil
		})
		controltest.Create(p, token("t", in(-time.Hour)))
		expect(t, p, "replaced", "t")
	})
}
