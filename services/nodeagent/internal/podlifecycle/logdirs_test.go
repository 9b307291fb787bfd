package podlifecycle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSweepLogs: the logs of unknown pods and containers are removed and other logs stay, and so
// does the link of a known container while its log is being rotated.
func TestSweepLogs(t *testing.T) {
	dir := t.TempDir()
	l := New(Config{LogDir: dir})
	none := func(string) bool { return false }
	if err := l.SweepLogs(none, none); err != nil {
		t.Fatalf("without any log: %v", err)
	}
	for _, file := range []string{"pods/default_here_uid-1/web/0.log", "pods/default_gone_uid-2/web/0.log", "pods/default_lone_uid-3/0.log"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "containers"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"here_default_web-id-1.log": "pods/default_here_uid-1/web/0.log", // its container is not listed yet
		"here_default_web-id2.log":  "pods/default_here_uid-1/web/1.log", // is being rotated
		"here_default_web-id3.log":  "pods/default_here_uid-1/web/2.log",
		"gone_default_web-id4.log":  "pods/default_gone_uid-2/web/0.log",
	} {
		if err := os.Symlink(filepath.Join(dir, target), filepath.Join(dir, "containers", link)); err != nil {
			t.Fatal(err)
		}
	}
	err := l.SweepLogs(
		func(uid string) bool { return uid == "uid-1" || uid == "uid-3" },
		func(id string) bool { return id == "id2" },
	)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, pattern := range []string{"pods/*", "containers/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	want := []string{"pods/default_here_uid-1", "pods/default_lone_uid-3", "containers/here_default_web-id-1.log", "containers/here_default_web-id2.log"}
	for i := range left {
		left[i] = strings.TrimPrefix(left[i], dir+"/")
	}
	if !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}
