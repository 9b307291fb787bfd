package externalsigner_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	externaljwt "k8s.io/externaljwt/apis/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/externalsigner"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/externalsigner/externalsignertest"
)

var _ authn.TokenKeys = (*externalsigner.Signer)(nil)

// newSigner returns a signer that has not started.
func newSigner(t testing.TB, p *externalsignertest.Process) *externalsigner.Signer {
	t.Helper()
	s, err := externalsigner.New(externalsigner.Config{
		Endpoint: p.Endpoint, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func started(t testing.TB, p *externalsignertest.Process) *externalsigner.Signer {
	t.Helper()
	s := newSigner(t, p)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSign checks that a token of the process has the payload, and is verified by the key that is found for it.
func TestSign(t *testing.T) {
	s := started(t, externalsignertest.Start(t))
	if got := s.MaxLife(); got != 90*time.Minute {
		t.Errorf("a token lives up to %v", got)
	}
	token, err := s.Sign(t.Context(), []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := s.Find(t.Context(), signed.Signatures[0].Header.KeyID)
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if payload, err := signed.Verify(keys[0].Key); err != nil || string(payload) != `{"a":1}` {
		t.Errorf("got %s, %v", payload, err)
	}
}

// TestAnswersThatAreRefused checks answers of the process with which a token could not be verified.
func TestAnswersThatAreRefused(t *testing.T) {
	p := externalsignertest.Start(t)
	s := started(t, p)
	header := func(text string) func(string) string {
		return func(string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	}
	long := strings.Repeat("k", 1025)
	for want, change := range map[string]func(){
		"must be JWT":            func() { p.Header = header(`{"alg":"ES256","kid":"first","typ":"jwt"}`) },
		"has 0 bytes":            func() { p.Header = header(`{"alg":"ES256","typ":"JWT"}`) },
		"has 1025 bytes":         func() { p.Header = header(`{"alg":"ES256","kid":"` + long + `","typ":"JWT"}`) },
		"must be one of":         func() { p.Header = header(`{"alg":"none","kid":"first","typ":"JWT"}`) },
		"that of the key":        func() { p.Header = header(`{"alg":"RS256","kid":"first","typ":"JWT"}`) },
		"unknown field":          func() { p.Header = header(`{"alg":"ES256","kid":"first","typ":"JWT","crit":["b64"]}`) },
		"data follows":           func() { p.Header = header(`{"alg":"ES256","kid":"first","typ":"JWT"}{}`) },
		"illegal base64":         func() { p.Header = func(string) string { return "a.b" } },
		"not among those":        func() { p.Header = header(`{"alg":"ES256","kid":"other","typ":"JWT"}`) },
		"signature is empty":     func() { p.Signature = func(string) string { return "" } },
		"not in URL-safe base64": func() { p.Signature = func(string) string { return "a.b" } },
		"only for old tokens": func() {
			p.Keys[1].ExcludeFromOidcDiscovery = true
			p.Keys[1].KeyId = "hidden"
			p.Header = header(`{"alg":"ES256","kid":"hidden","typ":"JWT"}`)
		},
		`"\x1b[2J" is not among those`: func() { p.Header = header(`{"alg":"ES256","kid":"\u001b[2J","typ":"JWT"}`) },
	} {
		t.Run(want, func(t *testing.T) {
			p.Do(func() { p.Keys, p.Header, p.Signature = p.Keys[:1], nil, nil })
			p.Use(t, "second")
			p.Do(change)
			if token, err := s.Sign(t.Context(), []byte("{}")); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %s, %v", token, err)
			}
		})
	}
}

// TestProcessesThatAreRefused checks what keeps a server from starting.
func TestProcessesThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(*externalsignertest.Process){
		"at most 599 s":       func(p *externalsignertest.Process) { p.MaxSeconds = 599 },
		"more than 0":         func(p *externalsignertest.Process) { p.Refresh = 0 },
		"there are no keys":   func(p *externalsignertest.Process) { p.Keys = nil },
		"has 0 bytes":         func(p *externalsignertest.Process) { p.Keys[0].KeyId = "" },
		"has 1025 bytes":      func(p *externalsignertest.Process) { p.Keys[0].KeyId = strings.Repeat("k", 1025) },
		`reading key "first"`: func(p *externalsignertest.Process) { p.Keys[0].Key = []byte("key") },
		"two keys":            func(p *externalsignertest.Process) { p.Keys = append(p.Keys, p.Keys[0]) },
	} {
		p := externalsignertest.Start(t)
		change(p)
		if err := newSigner(t, p).Start(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// TestUnknownKey checks that a new key is found without waiting for the next refresh, that a withdrawn one is
// not, and that tokens with made-up keys, which anyone can send, do not make the process be asked for each.
func TestUnknownKey(t *testing.T) {
	p := externalsignertest.Start(t)
	s := started(t, p)
	before := s.Generation()
	if found, err := s.Find(t.Context(), "made-up"); len(found) > 0 || err != nil || s.Generation() != before {
		t.Errorf("found %v, %v; generation %d became %d", found, err, before, s.Generation())
	}
	key := p.Use(t, "second")
	found, err := s.Find(t.Context(), "second")
	if err != nil || len(found) != 1 || !cmp.Equal(found[0].Key, key) {
		t.Fatal(found, err)
	}
	if s.Generation() == before {
		t.Error("the generation stays the same")
	}
	p.Do(func() { p.Keys, p.Fetches = p.Keys[1:], 0 })
	begun, done := time.Now(), make(chan error)
	for range 100 {
		go func() {
			found, err := s.Find(t.Context(), "made-up")
			if len(found) > 0 {
				t.Errorf("found %v", found)
			}
			done <- err
		}()
	}
	for range 100 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	seconds := int(time.Since(begun)/time.Second) + 1
	p.Do(func() {
		if p.Fetches < 1 || p.Fetches > seconds {
			t.Errorf("the process was asked %d times in %d s", p.Fetches, seconds)
		}
	})
	if found, err := s.Find(t.Context(), "first"); len(found) > 0 || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}

// TestPublished checks that a hidden key verifies but is not published.
func TestPublished(t *testing.T) {
	p := externalsignertest.Start(t)
	p.Use(t, "second")
	p.Keys[0].ExcludeFromOidcDiscovery = true
	s := started(t, p)
	published, age := s.Published()
	if got := externalsignertest.Public(published); len(got) != 1 || got["second"] == nil || age <= 50*time.Minute || age > time.Hour {
		t.Errorf("got %v for %v", got, age)
	}
	all, err := s.Find(t.Context(), "")
	if got := externalsignertest.Public(all); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestRun checks that keys are fetched as often as the process asks for, and that a failure withdraws none.
func TestRun(t *testing.T) {
	p := externalsignertest.Start(t)
	p.Refresh = 1
	s := started(t, p)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- s.Run(ctx) }()
	p.Use(t, "second")
	eventually(t, func() bool { keys, _ := s.Published(); return len(keys) == 2 })
	kept := p.Keys
	p.Do(func() { p.Keys, p.Fetches = nil, 0 })
	eventually(t, func() bool {
		var fetches int
		p.Do(func() { fetches = p.Fetches })
		return fetches > 0
	})
	if keys, _ := s.Published(); len(keys) != len(kept) {
		t.Errorf("a failed refresh left %d keys", len(keys))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// FuzzAnswer reads arbitrary answers: they are refused or yield keys, and nothing fails.
func FuzzAnswer(f *testing.F) {
	p := externalsignertest.Start(f)
	s := started(f, p)
	answer, err := p.FetchKeys(f.Context(), nil)
	if err != nil {
		f.Fatal(err)
	}
	data, err := proto.Marshal(answer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, "a", "b")
	f.Fuzz(func(t *testing.T, data []byte, header, signature string) {
		var answer externaljwt.FetchKeysResponse
		if proto.Unmarshal(data, &answer) != nil {
			return
		}
		p.Do(func() {
			p.Keys, p.Refresh = answer.GetKeys(), answer.GetRefreshHintSeconds()
			p.Header, p.Signature = func(string) string { return header }, func(string) string { return signature }
		})
		if token, err := s.Sign(t.Context(), []byte("{}")); err == nil && strings.Count(token, ".") != 2 {
			t.Errorf("got the token %q", token)
		}
	})
}
