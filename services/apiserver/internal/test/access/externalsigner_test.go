package access_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/externalsigner/externalsignertest"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestExternalSigner lets another process sign service account tokens: the server accepts them, publishes the
// process's keys, keeps to its longest lifetime, and refuses the tokens of a key that the process withdraws.
func TestExternalSigner(t *testing.T) {
	t.Parallel()
	process := externalsignertest.Start(t)
	process.Refresh = 1
	s := harness.New(t, etcdtest.New(t))
	s.Change = func(cfg *apiserver.Config) { cfg.Authentication.SigningEndpoint = process.Endpoint }
	s.Start()
	admin := harness.Typed(t, s.Admin())
	_, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := issue(t, admin, nil)
	if user, err := whoami(t, s.WithToken(token)); err != nil || user.Username != "system:serviceaccount:default:robot" {
		t.Errorf("the token is of %q, %v", user.Username, err)
	}
	process.Do(func() {
		if process.Signatures != 1 {
			t.Errorf("the process signed %d tokens", process.Signatures)
		}
	})
	if _, keys := s.Exchange(s.Admin(), "GET", "/openid/v1/jwks", "", nil); !strings.Contains(keys, `"kid":"first"`) || strings.Count(keys, `"kid"`) != 1 {
		t.Errorf("the published keys are %s", keys)
	}
	const day = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}`
	response, body := s.Exchange(s.Admin(), "POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", day, map[string]string{"Content-Type": "application/json"})
	if warning := response.Header.Get("Warning"); response.StatusCode != http.StatusCreated || !strings.Contains(warning, "shortened to 5400 seconds") {
		t.Errorf("a token for a day: %s, warning %s, %s", response.Status, warning, body)
	}
	process.Use(t, "second")
	process.Do(func() { process.Keys = process.Keys[1:] })
	harness.Eventually(t, "the token of the withdrawn key is refused", func() bool {
		response, _ := s.Exchange(s.WithToken(token), "GET", "/apis", "", nil)
		return response.StatusCode == http.StatusUnauthorized
	})
	if _, err := whoami(t, s.WithToken(issue(t, admin, nil))); err != nil {
		t.Errorf("a token of the new key is refused: %v", err)
	}
}
