package authn

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *logged) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "\n")
}

// TestTokenFileIsReadAgain: a changed file takes effect at once; an invalid one never does, and is
// logged once.
func TestTokenFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, path, "t1,alice,1\nt2,bob,2,\"dev, ops\"\n")
	var log logged
	file, err := NewTokenFile(path, []string{issuer}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	check := func(token, want string) {
		t.Helper()
		result, ok, err := file.Token(t.Context(), token, []string{issuer})
		if ok != (want != "") || err != nil || result.User.Name != want {
			t.Errorf("token %s: got user %q, %v, %v, want %q", token, result.User.Name, ok, err, want)
		}
	}
	check("t1", "alice")
	check("t3", "")
	if _, ok, _ := file.Token(t.Context(), "t1", []string{"vault"}); ok {
		t.Error("a file's token is valid for another audience than the API")
	}
	write(t, path, "t3,carol,3\n")
	check("t3", "carol")
	check("t1", "")
	for _, wrong := range []string{"t4\n", "t4,dave\n", "\"t4"} {
		write(t, path, wrong)
		before := log.lines()
		for range 3 {
			check("t3", "carol")
			check("t4", "")
		}
		if n := log.lines() - before; n != 1 {
			t.Errorf("the invalid file %q is logged %d times, want 1", wrong, n)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("t3", "carol")
	write(t, path, "t5,eve,5\n")
	check("t5", "eve")
	check("t3", "")
	for _, text := range []string{"a,b\n", ",b,c\n", "a,,c\n", "\"a\n"} {
		write(t, path, text)
		if _, err := NewTokenFile(path, nil, quiet()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("the invalid file %q: got %v, want an error with its path", text, err)
		}
	}
	if _, err := NewTokenFile(path+"x", nil, quiet()); err == nil {
		t.Error("a missing file was read")
	}
}

// TestTokenFileChangedTwiceAtOnce: a change takes effect even if the file's time and size don't
// show it.
func TestTokenFileChangedTwiceAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	at := time.Now().Add(time.Hour) // counts as recent for the whole test
	change := func(text string) {
		t.Helper()
		write(t, path, text)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	change("t00,alice,1\n")
	file, err := NewTokenFile(path, []string{issuer}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		token := fmt.Sprintf("t%02d", i)
		change(token + ",alice,1\n")
		if _, ok, _ := file.Token(t.Context(), token, []string{issuer}); !ok {
			t.Fatalf("token %s is not accepted", token)
		}
	}
}

// TestTokenFileWhileItChanges: while the file is replaced, readers see one of its versions, and a
// token that is in all of them is always accepted.
func TestTokenFileWhileItChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens.csv")
	content := func(version int) string { return fmt.Sprintf("always,alice,1\nt%d,bob,2\n", version) }
	write(t, path, content(0))
	file, err := NewTokenFile(path, []string{issuer}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	const versions, readers = 200, 4
	group, ctx := errgroup.WithContext(t.Context())
	done := make(chan struct{})
	group.Go(func() error {
		defer close(done)
		for version := 1; version <= versions; version++ {
			next := filepath.Join(dir, "next")
			if err := os.WriteFile(next, []byte(content(version)), 0o600); err != nil {
				return err
			}
			if err := os.Rename(next, path); err != nil {
				return err
			}
		}
		return nil
	})
	for range readers {
		group.Go(func() error {
			for {
				result, ok, err := file.Token(ctx, "always", []string{issuer})
				if err != nil || !ok || result.User.Name != "alice" {
					return fmt.Errorf("the token that is in all versions: got %+v, %v, %w", result, ok, err)
				}
				select {
				case <-done:
					return nil
				default:
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := file.Token(t.Context(), fmt.Sprint("t", versions), []string{issuer}); !ok {
		t.Error("the last version's token is not accepted")
	}
	if _, ok, _ := file.Token(t.Context(), fmt.Sprint("t", versions-1), []string{issuer}); ok {
		t.Error("the previous version's token is still accepted")
	}
}

// TestGuessesDoNotFloodTheLog: token IDs are public, so any client can guess their secrets.
func TestGuessesDoNotFloodTheLog(t *testing.T) {
	var log bytes.Buffer
	tokens := NewBootstrapTokens([]string{issuer}, func(_, name string) (*corev1.Secret, bool) {
		return &corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef")}}, true
	}, slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Now()
	tokens.now = func() time.Time { return now }
	guess := func() {
		t.Helper()
		if _, ok, err := tokens.Token(t.Context(), "abcdef.fedcba9876543210", []string{issuer}); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for range 1000 {
		guess()
	}
	if lines := strings.Count(log.String(), "is not valid"); lines == 0 || lines > 20 {
		t.Errorf("got %d log lines for 1000 guesses, want 1 to 20", lines)
	}
	now = now.Add(time.Hour)
	if guess(); !strings.Contains(log.String(), "notLogged=990") {
		t.Errorf("the log does not count the guesses it left out: %s", log.String())
	}
}

// FuzzBootstrapToken: whatever a Secret contains, its user and groups are those of bootstrap
// tokens.
func FuzzBootstrapToken(f *testing.F) {
	f.Add("abcdef.0123456789abcdef", "abcdef", "0123456789abcdef", "2999-01-01T00:00:00Z", "system:bootstrappers:a,system:bootstrappers:b-c")
	f.Add("a.b", "", "", "x", ",")
	f.Fuzz(func(t *testing.T, token, id, secret, expiration, groups string) {
		tokens := NewBootstrapTokens([]string{issuer}, func(_, name string) (*corev1.Secret, bool) {
			return &corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{
				"token-id": []byte(id), "token-secret": []byte(secret), "expiration": []byte(expiration),
				"auth-extra-groups": []byte(groups), "usage-bootstrap-authentication": []byte("true"),
			}}, true
		}, quiet())
		result, ok, err := tokens.Token(t.Context(), token, []string{issuer})
		if err != nil || ok && (token != id+"."+secret || result.User.Name != "system:bootstrap:"+id) {
			t.Errorf("token %q: got %+v, %v", token, result, err)
		}
		for _, group := range result.User.Groups {
			if group != bootstrapapi.BootstrapDefaultGroup && !strings.HasPrefix(group, bootstrapapi.BootstrapDefaultGroup+":") {
				t.Errorf("token %q: its user is in the group %q", token, group)
			}
		}
	})
}
