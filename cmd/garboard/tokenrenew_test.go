package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/cmd/garboard/internal/jointoken"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/pki"
)

// lockedText is a buffer that can be read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestTokenRenewal: tokens change, each is valid until the one after the next, the file has the
// last one, and the retired token is deleted. The API may be unavailable now and then.
func TestTokenRenewal(t *testing.T) {
	dir := t.TempDir()
	old, file := filepath.Join(dir, "bootstrap-token"), filepath.Join(dir, "bootstrap-kubeconfig")
	if err := os.WriteFile(old, []byte(aToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		api := newFake()
		if _, err := create(t, api, func(c *tokenCreate) { c.ttl = 0 }, aToken); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var away atomic.Bool
		api.Fail(func(client.Call) error {
			if away.Load() {
				return errors.New("the API is away")
			}
			return nil
		})
		c := creating()
		c.bootstrap, c.renewal = file, tokenRenewal{every: 20 * time.Minute, retire: old}
		ctx, cancel := context.WithCancel(t.Context())
		var out, problems lockedText
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx, &out, &problems, planeConfig(), api, nil) }()
		seen := map[string]bool{}
		current := func() string {
			synctest.Wait()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			config, err := pki.ParseKubeconfig(data)
			if err != nil {
				t.Fatal(err)
			}
			return config.Token
		}
		for i := range 3 {
			token := current()
			id, _, _ := strings.Cut(token, ".")
			if seen[token] {
				t.Errorf("the token %s is reused", id)
			}
			seen[token] = true
			want := began.Add(time.Duration(i)*20*time.Minute + time.Hour).UTC().Format(time.RFC3339)
			if data := secretOf(t, api, id); data["expiration"] != want {
				t.Errorf("token %d ends at %s, want %s", i, data["expiration"], want)
			}
			if strings.Contains(out.String(), token) {
				t.Error("the log has a token")
			}
			time.Sleep(20 * time.Minute)
		}
		last := current()
		tokens, _, err := jointoken.List(t.Context(), api)
		if err != nil || len(tokens) != 4 {
			t.Errorf("there are %d tokens, %v", len(tokens), err)
		}
		for _, token := range tokens {
			if token.String() == aToken {
				t.Error("the retired token still exists")
			}
		}
		away.Store(true)
		time.Sleep(21 * time.Minute)
		if current() != last || !strings.Contains(problems.String(), "the API is away; trying again in 15s") {
			t.Errorf("while the API is away: %s", problems.String())
		}
		away.Store(false)
		time.Sleep(15 * time.Second)
		if current() == last {
			t.Error("it does not retry")
		}
		away.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "the API is away") {
			t.Errorf("after an hour without the API: %v", err)
		}
		away.Store(false)
		go func() { ended <- c.run(ctx, &out, &problems, planeConfig(), api, nil) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestBootstrapSecret(t *testing.T) {
	cluster := newFake()
	for _, text := range []string{"one", "two"} {
		if err := keepSecret(t.Context(), cluster, "kube-system/join", []byte(text)); err != nil {
			t.Fatal(err)
		}
		secret, err := client.Of[*corev1.Secret](cluster).Get(t.Context(), "kube-system", "join", metav1.GetOptions{})
		if err != nil || string(secret.Data["bootstrap-kubeconfig"]) != text {
			t.Errorf("the Secret has %q, %v", secret.Data, err)
		}
	}
}

func TestTokenRenewalRefuses(t *testing.T) {
	for want, change := range map[string]func(*tokenCreate){
		"must not be negative": func(c *tokenCreate) { c.renewal.every = -1 },
		"neither TOKEN nor":    func(c *tokenCreate) { c.renewal.every, c.file = time.Minute, "x" },
		"half of --ttl 1h0m0s": func(c *tokenCreate) { c.renewal.every = 31 * time.Minute },
		"half of --ttl 0s":     func(c *tokenCreate) { c.renewal.every, c.ttl = time.Minute, 0 },
		"give NAMESPACE/NAME":  func(c *tokenCreate) { c.renewal.secret = "join" },
	} {
		if _, err := create(t, newFake(), change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
