package access_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestFrontProxy asks as a front proxy who the user is: over HTTPS with the certificate of the certificate
// directory, and over NATS, where headers never name a user.
func TestFrontProxy(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	file := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(s.CertDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	proxy := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: file("ca.crt"), CertData: file("front-proxy-client.crt"), KeyData: file("front-proxy-client.key"),
	}}
	master, poor, none := s.WithToken(harness.MasterToken), s.WithToken(harness.PoorToken), s.WithToken("")
	carried := s.Carried(t, master)
	over := func(config *rest.Config) *rest.Config {
		return &rest.Config{Host: config.Host, Transport: carried.Transport}
	}
	bob := http.Header{"X-Remote-User": {"bob"}, "X-Remote-Group": {"ops", "system:masters"}, "X-Remote-Uid": {"7"}, "X-Remote-Extra-Example.org%2fkey": {"v"}}
	token := func(token string) http.Header {
		header := bob.Clone()
		header.Set("Authorization", "Bearer "+token)
		return header
	}
	for name, c := range map[string]struct {
		as     *rest.Config
		header http.Header
		code   int
		want   string
	}{
		"a front proxy":                     {proxy, bob, 201, "bob/7 [ops system:masters system:authenticated] map[example.org/key:[v]]"},
		"a front proxy without a user":      {proxy, nil, 401, ""},
		"a user's certificate":              {s.Admin(), bob, 201, "kubernetes-admin/ [system:masters system:authenticated]"},
		"a user's token":                    {poor, bob, 201, "poor/p1 [system:authenticated]"},
		"no credential":                     {none, bob, 403, ""},
		"over NATS, a user's token":         {over(none), token(harness.PoorToken), 201, "poor/p1 [system:authenticated]"},
		"over NATS, no credential":          {over(none), bob, 403, ""},
		"over NATS, a front proxy's client": {over(proxy), bob, 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			transport, err := rest.TransportFor(c.as)
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
				strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = c.header.Clone()
			if r.Header == nil {
				r.Header = http.Header{}
			}
			r.Header.Set("Content-Type", "application/json")
			res, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != c.code {
				t.Fatalf("got %s, want %d", res.Status, c.code)
			}
			if c.code != http.StatusCreated {
				return
			}
			var review authenticationv1.SelfSubjectReview
			if err := json.NewDecoder(res.Body).Decode(&review); err != nil {
				t.Fatal(err)
			}
			user := review.Status.UserInfo
			delete(user.Extra, "authentication.kubernetes.io/credential-id")
			got := fmt.Sprintf("%s/%s %v", user.Username, user.UID, user.Groups)
			if len(user.Extra) > 0 {
				got += fmt.Sprint(" ", user.Extra)
			}
			if got != c.want {
				t.Errorf("the user is %s, want %s", got, c.want)
			}
		})
	}
}
