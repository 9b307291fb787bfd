package openid_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/tokenkey"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/openid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keys(t *testing.T) []tokenkey.Public {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := tokenkey.NewPublic(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return []tokenkey.Public{key}
}

// age is for how long the keys may be cached.
const age = 90 * time.Minute

func TestDocuments(t *testing.T) {
	keys := keys(t)
	documents, err := openid.New("https://issuer", "", "1.2.3.4:6443", func() ([]tokenkey.Public, time.Duration) { return keys, age })
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	documents.ServeConfiguration(w, nil)
	const want = `{"issuer":"https://issuer","jwks_uri":"https://1.2.3.4:6443/openid/v1/jwks","response_types_supported":["id_token"],` +
		`"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}`
	if got := w.Body.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "public, max-age=5400" {
		t.Errorf("got headers %v", h)
	}
	w = httptest.NewRecorder()
	documents.ServeKeys(w, nil)
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || len(set.Keys) != 1 || !set.Keys[0].IsPublic() || set.Keys[0].KeyID != keys[0].ID {
		t.Errorf("got keys %s, %v", w.Body, err)
	}
	if h := w.Header(); h.Get("Content-Type") != "application/jwk-set+json" || h.Get("Cache-Control") != "public, max-age=5400" {
		t.Errorf("got headers %v", h)
	}
}

func TestURLs(t *testing.T) {
	for name, c := range map[string]struct{ issuer, keys, want string }{
		"plain http":     {"http://issuer", "", "issuer URL must use https scheme, got: http://issuer"},
		"not a URL":      {"issuer", "", "issuer URL must use https scheme, got: issuer"},
		"a query":        {"https://issuer?a=b", "", "issuer URL may not include a query, got: https://issuer?a=b"},
		"a fragment":     {"https://issuer#a", "", "issuer URL may not include a fragment, got: https://issuer#a"},
		"keys over http": {"https://issuer", "http://keys", "jwksURI requires https scheme, parsed as: http://keys"},
		"keys elsewhere": {"https://issuer", "https://keys/x", ""},
	} {
		_, err := openid.New(c.issuer, c.keys, "host", func() ([]tokenkey.Public, time.Duration) { return keys(t), 0 })
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
