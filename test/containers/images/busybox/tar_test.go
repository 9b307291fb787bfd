package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestTar carries a folder from one place to another.
func TestTar(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for name, data := range map[string][]byte{"a": []byte("small"), "sub/b": large, "sub/empty": nil} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub/b", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if err := archive([]string{"cf", "-", from}, nil, &packed); err != nil {
		t.Fatal(err)
	}
	if err := archive([]string{"-xmf", "-", "-C", to}, &packed, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, from, "link")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("read %d bytes through the link, %v", len(got), err)
	}
	if info, err := os.Stat(filepath.Join(to, from, "sub/empty")); err != nil || info.Size() > 0 || info.Mode().Perm() != 0o640 {
		t.Errorf("the empty file is %v, %v", info, err)
	}
	for name, args := range map[string][]string{
		"nothing": nil, "no archive": {"cf"}, "another archive": {"cf", "file", from}, "what is not there": {"cf", "-", filepath.Join(from, "none")},
		"no folder": {"xmf", "-", "-C", filepath.Join(from, "none")},
	} {
		if err := archive(args, bytes.NewReader(nil), new(bytes.Buffer)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
