package volumes

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func textFiles(texts map[string]string) map[string]file {
	files := map[string]file{}
	for name, text := range texts {
		files[name] = file{data: []byte(text), mode: 0o644}
	}
	return files
}

// TestWriteAmongHostileFiles writes into a directory that a container has manipulated.
func TestWriteAmongHostileFiles(t *testing.T) {
	files := textFiles(map[string]string{"key": "value", "deep/er": "down"})
	outside := filepath.Join(t.TempDir(), "outside")
	for name, hostile := range map[string]func(dir, version string) error{
		"FIFO for a file": func(dir, version string) error {
			path := filepath.Join(dir, version, "key")
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644))
		},
		"endless file": func(dir, version string) error { return os.Truncate(filepath.Join(dir, version, "key"), 1<<40) },
		"link for a file": func(dir, version string) error {
			path := filepath.Join(dir, version, "key")
			return errors.Join(os.Remove(path), os.Symlink(outside, path))
		},
		"link for the version": func(dir, version string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, version)), os.Symlink(outside, filepath.Join(dir, version)))
		},
		"no data link": func(dir, _ string) error { return os.Remove(filepath.Join(dir, dataLink)) },
		"data link elsewhere": func(dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, dataLink)), os.Symlink(outside, filepath.Join(dir, dataLink)))
		},
		"directory for the data link": func(dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, dataLink)), os.MkdirAll(filepath.Join(dir, dataLink, "x"), 0o755))
		},
		"directory for the next data link": func(dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, dataLink)), os.MkdirAll(filepath.Join(dir, newDataLink, "x"), 0o755))
		},
		"link for a directory": func(dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "deep")), os.Symlink(outside, filepath.Join(dir, "deep")))
		},
		"full directory for a link": func(dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "key")), os.MkdirAll(filepath.Join(dir, "key", "x"), 0o755))
		},
		"strange files": func(dir, _ string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "strange", "x"), 0o755), os.WriteFile(filepath.Join(dir, "..strange"), nil, 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Join(outside, "er"), 0o755); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			last, err := writeFiles(dir, files, nil, version{})
			if err != nil {
				t.Fatal(err)
			}
			if err := hostile(dir, last.name); err != nil {
				t.Fatal(err)
			}
			for _, want := range []map[string]file{files, textFiles(map[string]string{"key": "new"})} {
				done := make(chan error, 1)
				go func() {
					var err error
					last, err = writeFiles(dir, want, nil, last)
					done <- err
				}()
				select {
				case err = <-done:
				case <-time.After(time.Minute):
					t.Fatal("the writer does not return")
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if text, err := os.ReadFile(filepath.Join(dir, "key")); err != nil || string(text) != "new" {
				t.Errorf("the file holds %q, %v", text, err)
			}
			if left := entriesOf(t, dir); !slices.Equal(left, slices.Sorted(slices.Values([]string{last.name, dataLink, "key"}))) {
				t.Errorf("the volume holds %q", left)
			}
			if left := entriesOf(t, outside); !slices.Equal(left, []string{"er"}) {
				t.Errorf("the entries outside of the volume are %q", left)
			}
		})
	}
}

func entriesOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
}

// TestWriteWhileLinksArePlanted plants links in each new version as soon as it exists.
func TestWriteWhileLinksArePlanted(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			versions, err := filepath.Glob(filepath.Join(dir, "..2*"))
			if err != nil {
				return
			}
			for _, v := range versions {
				_ = os.Symlink(filepath.Join(outside, "planted"), filepath.Join(v, "z"))
				_ = os.Symlink(outside, filepath.Join(v, "y"))
			}
		}
	}()
	texts := map[string]string{"y/file": "y", "z": "z"}
	for i := range 200 {
		texts["a"+strings.Repeat("a", i)] = "a"
	}
	refused := 0
	for range 20 {
		if _, err := writeFiles(dir, textFiles(texts), nil, version{}); err != nil {
			refused++
		}
	}
	close(stop)
	<-done
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written outside of the volume: %v, %v", left, err)
	}
	t.Logf("%d of 20 writes found a planted link and failed", refused)
}

func TestUnchangedFilesAreLeftAlone(t *testing.T) {
	dir, group := t.TempDir(), int64(os.Getgid())
	files := textFiles(map[string]string{"a": "1"})
	first, err := writeFiles(dir, files, nil, version{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := writeFiles(dir, maps.Clone(files), nil, first)
	if err != nil || again != first {
		t.Errorf("unchanged files were written again: %v", err)
	}
	for name, change := range map[string]struct {
		files map[string]file
		group *int64
	}{
		"content":           {textFiles(map[string]string{"a": "2"}), nil},
		"name":              {textFiles(map[string]string{"b": "1"}), nil},
		"mode":              {map[string]file{"a": {data: []byte("1"), mode: 0o600}}, nil},
		"owner":             {map[string]file{"a": {data: []byte("1"), mode: 0o644, owner: &group}}, nil},
		"group":             {files, &group},
		"another boundary":  {textFiles(map[string]string{"a1": ""}), nil},
		"one file for none": {textFiles(nil), nil},
	} {
		next, err := writeFiles(dir, change.files, change.group, first)
		if err != nil || next.name == first.name {
			t.Errorf("a change of the %s was not written: %v", name, err)
		}
		if first, err = writeFiles(dir, files, nil, next); err != nil {
			t.Fatal(err)
		}
	}
	// A restarted agent knows of no version.
	next, err := writeFiles(dir, files, nil, version{})
	if err != nil || next.name == first.name {
		t.Errorf("the first write of an agent trusts what it finds: %v", err)
	}
	if after, err := writeFiles(dir, files, nil, next); err != nil || after != next {
		t.Errorf("the second write of an agent wrote again: %v", err)
	}
}

func TestModesWhateverTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := writeFiles(dir, map[string]file{"a/b/c": {mode: 0o644}, "a/d": {mode: 0o440}}, nil, version{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"..data/.": 0o755, "a/.": 0o755, "a/b": 0o755, "a/b/c": 0o644, "a/d": 0o440} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v, %v", name, info.Mode(), want, err)
		}
	}
}

// FuzzWriteFiles writes files with arbitrary paths: each is rejected or written where it belongs,
// and nothing is written anywhere else.
func FuzzWriteFiles(f *testing.F) {
	for _, path := range []string{"a", "a/b", "../a", "..", ".", "", "/a", "a//b/", "a/./b", "a/../../b", "..data", "a\x00b", strings.Repeat("a", 300), "a\nb"} {
		f.Add(path, "a/b")
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "volume")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := writeFiles(dir, textFiles(map[string]string{one: "text", other: "text"}), nil, version{})
		if left := entriesOf(t, parent); !slices.Equal(left, []string{"volume"}) {
			t.Fatalf("%q and %q were written to %q", one, other, left)
		}
		if err != nil {
			return
		}
		for _, name := range []string{one, other} {
			if text, err := os.ReadFile(filepath.Join(dir, filepath.Clean(name))); err != nil || string(text) != "text" {
				t.Errorf("%q holds %q, %v", name, text, err)
			}
		}
	})
}

// TestUpdatesAreWhole changes files at random: after each write the volume shows exactly those
// files.
func TestUpdatesAreWhole(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c/a", "c/b", "d/e/f", "g"})
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "volume") //nolint:usetesting // One directory for each of many cases.
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		var last version
		for range rapid.IntRange(1, 6).Draw(t, "writes") {
			texts := rapid.MapOf(names, rapid.StringMatching("[xy]{0,2}")).Draw(t, "files")
			if last, err = writeFiles(dir, textFiles(texts), nil, last); err != nil {
				t.Fatal(err)
			}
			shown := map[string]string{}
			data := os.DirFS(filepath.Join(dir, last.name))
			err := fs.WalkDir(data, ".", func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				text, err := os.ReadFile(filepath.Join(dir, path))
				shown[path] = string(text)
				return err
			})
			if err != nil || !maps.Equal(shown, texts) {
				t.Fatalf("the volume shows %q, want %q, %v", shown, texts, err)
			}
		}
	})
}
