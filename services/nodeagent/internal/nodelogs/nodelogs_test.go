package nodelogs

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logs returns a handler of a folder with logs, and with a pipe and links that a container may have made.
// script is the journal's reader.
func logs(t *testing.T, query bool, script string) http.Handler {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	root := filepath.Join(dir, "log")
	reader := filepath.Join(dir, "journalctl")
	for path, text := range map[string]string{
		secret: "the secret", filepath.Join(root, "a.log"): "log of a\n", filepath.Join(root, "kubelet.log"): "log of kubelet\n",
		filepath.Join(root, "deep", "deep.log"): "log of deep\n", reader: "#!/bin/sh\n" + script,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"absolute": secret, "relative": "../secret", "up": "..", "inside": "a.log"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	find := func() (string, error) {
		if script == "" {
			return "", errors.New("none")
		}
		return reader, nil
	}
	return New(Config{Dir: root, Query: query, Journal: find, Logger: slog.New(slog.DiscardHandler)})
}

func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
	if strings.Contains(recorder.Body.String(), "the secret") {
		t.Errorf("%s: served %q", target, recorder.Body)
	}
	return recorder
}

// TestFiles checks that files and folders are served, and nothing outside.
func TestFiles(t *testing.T) {
	h := logs(t, false, "")
	for _, test := range []struct {
		target string
		code   int
		text   string
	}{
		{"/logs/a.log", 200, "log of a\n"},
		{"/logs/inside", 200, "log of a\n"},
		{"/logs/deep/deep.log", 200, "log of deep\n"},
		{"/logs/", 200, `<a href="kubelet.log">kubelet.log</a>`},
		{"/logs/a.log?query=kubelet", 200, "log of a\n"}, // Queries are off.
		{"/logs/none", 404, "404 page not found"},
		{"/logs/absolute", 500, ""},
		{"/logs/relative", 500, ""},
		{"/logs/up/secret", 500, ""},
		{"/logs/../secret", 404, ""},
		{"/logs/%2e%2e/secret", 404, ""},
		{"/logs/pipe", 403, ""},
	} {
		got := get(t, h, test.target)
		if got.Code != test.code || !strings.Contains(got.Body.String(), test.text) {
			t.Errorf("%s: got %d %q, want %d %q", test.target, got.Code, got.Body, test.code, test.text)
		}
	}
	if got := get(t, New(Config{Dir: t.TempDir() + "/none", Logger: slog.New(slog.DiscardHandler)}), "/logs/"); got.Code != http.StatusNotFound {
		t.Errorf("without a folder: %d %s", got.Code, got.Body)
	}
	disabled := httptest.NewRecorder()
	Disabled(disabled, nil)
	if disabled.Code != http.StatusMethodNotAllowed || disabled.Body.String() != "logs endpoint is disabled.\n" {
		t.Errorf("disabled: %d %s", disabled.Code, disabled.Body)
	}
}

// journalctl is a journal with entries of kubelet.service, which prints its arguments.
const journalctl = `if [ "$1" = --field ]; then echo kubelet.service; else echo "journal: $*"; fi`

// TestQueries checks queries for files and services.
func TestQueries(t *testing.T) {
	for _, test := range []struct {
		query, journal string
		code           int
		text           string
	}{
		{"query=/a.log", "", 200, "log of a\n"},
		{`query=\a.log`, "", 200, "log of a\n"},
		{"query=/../secret", "", 406, "no such file"},
		{"query=/relative", "", 406, "escapes"},
		{"query=/pipe", "", 406, "permission denied"},
		{"query=/a.log&tailLines=1", "", 406, "cannot specify file with options"},
		{"query=/a.log&query=/b", "", 406, "cannot specify more than one file"},
		{"query=/a.log&query=kubelet", "", 406, "cannot specify a file and service"},
		{"query=%20", "", 400, "may not be empty"},
		{"tailLines=5", "", 406, "cannot be empty with options"},
		{"query=kubelet", "", 200, "log of kubelet\n"},
		{"query=a&query=deep", "", 200, "log of a\nlog of deep\n"},
		{"query=none", "", 200, "\nlog not found for none\nthis node has no journalctl\n"},
		{"query=none", journalctl, 200, "\nlog not found for none\n"},
		{"query=..", "", 200, "\nerror getting log for ..: "},
		{"query=kubelet&tailLines=1", "", 200, "options present and query resolved to log files for [kubelet]\ntry without specifying options\nthis node has no journalctl"},
		{"query=kubelet", journalctl, 200, "journal: --utc --no-pager --output=short-precise --unit=kubelet\n"},
		{"query=kubelet&tailLines=5&pattern=a|b&boot=-1&sinceTime=2026-11-27T01:02:03%2b01:00&untilTime=2026-11-28T00:00:00Z", journalctl, 200,
			"--since=2026-11-27 00:02:03 UTC --until=2026-11-28 00:00:00 UTC --pager-end --lines=5 --unit=kubelet --grep=a|b --boot -1\n"},
		{"query=kubelet", "exit 1", 200, "log of kubelet\n"},
		{"query=kube;let", journalctl, 406, "input contains unsupported characters"},
		{"query=" + strings.Repeat("a", maxServiceLength+1), journalctl, 406, "length must be less than 256"},
		{"query=a&query=b&query=c&query=d&query=e", journalctl, 406, "must have at most 4 items"},
		{"query=kubelet&tailLines=many", journalctl, 400, "invalid syntax"},
		{"query=kubelet&tailLines=100001", journalctl, 406, "must be between 0 and 100000"},
		{"query=kubelet&boot=1", journalctl, 406, "must be less than 1"},
		{"query=kubelet&pattern=(", journalctl, 406, "missing closing"},
		{"query=kubelet&sinceTime=today", journalctl, 400, "invalid time format"},
		{"query=kubelet&sinceTime=2026-11-28T00:00:00Z&untilTime=2026-11-27T00:00:00Z", journalctl, 406, "must be after `sinceTime`"},
	} {
		values := strings.NewReplacer(";", "%3B", "|", "%7C").Replace(test.query)
		got := get(t, logs(t, true, test.journal), "/logs/?"+values)
		if got.Code != test.code || !strings.Contains(got.Body.String(), test.text) {
			t.Errorf("%s: got %d %q, want %d %q", test.query, got.Code, got.Body, test.code, test.text)
		}
	}
	h := logs(t, true, "")
	if got := get(t, h, "/logs/deep/?query=kubelet"); got.Code != http.StatusNotAcceptable || !strings.Contains(got.Body.String(), "path not allowed in query mode") {
		t.Errorf("a query with a path: %d %s", got.Code, got.Body)
	}
	if got := get(t, h, "/logs/a.log"); got.Body.String() != "log of a\n" {
		t.Errorf("no query: %d %s", got.Code, got.Body)
	}
}

// TestCapped checks that the journal's list of units is bounded.
func TestCapped(t *testing.T) {
	var out strings.Builder
	c := &capped{to: &out, left: 5}
	for _, part := range []string{"abc", "def", "ghi"} {
		if n, err := c.Write([]byte(part)); n != 3 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	if out.String() != "abcde" {
		t.Errorf("wrote %q", out.String())
	}
}

// FuzzParse checks that every query is either refused or safe to pass on.
func FuzzParse(f *testing.F) {
	f.Add("query=kubelet&tailLines=5&boot=0&pattern=x")
	f.Add("query=--file=/etc/shadow")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, faults := parse(values)
		if len(faults) > 0 || q == nil || len(q.validate(os.DirFS(t.TempDir()))) > 0 || len(q.services) == 0 {
			return
		}
		for _, arg := range arguments(q, q.services)[3:] {
			known := []string{"--since=", "--until=", "--pager-end", "--lines=", "--unit=", "--grep=", "--boot"}
			number := strings.TrimLeft(arg, "-0123456789") == ""
			if !number && !slices.ContainsFunc(known, func(prefix string) bool { return strings.HasPrefix(arg, prefix) }) {
				t.Errorf("%q became the argument %q", text, arg)
			}
		}
	})
}

// TestSlowJournal checks that a reader that does not end is killed with its request.
func TestSlowJournal(t *testing.T) {
	h := logs(t, true, `if [ "$1" = --field ]; then echo kubelet.service; else exec sleep 1000; fi`)
	server := httptest.NewServer(h)
	defer server.Close()
	client := &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	if response, err := client.Get(server.URL + "/logs/?query=kubelet"); err == nil {
		_ = response.Body.Close()
		t.Error("the request ended early")
	}
}

// TestManyEntries checks that the list of a folder is bounded, and that a folder without entries is listed.
func TestManyEntries(t *testing.T) {
	dir := t.TempDir()
	h := New(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if got := get(t, h, "/logs/"); got.Code != http.StatusOK || strings.Contains(got.Body.String(), "href") {
		t.Errorf("an empty folder: %d %s", got.Code, got.Body)
	}
	for i := range maxEntries + 1 {
		if err := os.WriteFile(filepath.Join(dir, "f"+strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, h, "/logs/"); strings.Count(got.Body.String(), "href") != maxEntries {
		t.Errorf("%d entries were listed", strings.Count(got.Body.String(), "href"))
	}
}
