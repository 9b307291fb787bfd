package volumes

import (
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

func newTestVolumes(t *testing.T, simulated bool) *Volumes {
	v := New(Config{
		Dir: filepath.Join(t.TempDir(), "pods"), Client: fake.New(scheme.New()), Simulated: simulated,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() {
		if err := v.Remove("u"); err != nil {
			t.Error(err)
		}
	})
	return v
}

// mayMount skips a test where this user may not mount.
func mayMount(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if _, err := mountMemory(dir, 0, 0o755); errors.Is(err, fs.ErrPermission) {
		t.Skip("mounting needs more privileges")
	} else if err != nil {
		t.Fatal(err)
	}
	if err := unmount(dir); err != nil {
		t.Fatal(err)
	}
}

// exchange swaps the names one and other repeatedly until the test ends.
func exchange(t *testing.T, one, other string) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// TestSubPathIsNotRedirected swaps a directory and a link that leads out of the volume while
// mounting the directory.
func TestSubPathIsNotRedirected(t *testing.T) {
	mayMount(t)
	for name, sub := range map[string]string{"itself": "s", "on the way": "s/deep", "to be made": "s/new/dir"} {
		t.Run(name, func(t *testing.T) {
			v := newTestVolumes(t, false)
			root, outside := t.TempDir(), t.TempDir()
			write(t, filepath.Join(root, "s", "deep", "inside"), "")
			write(t, filepath.Join(outside, "deep", "outside"), "")
			symlink(t, outside, filepath.Join(root, "l"))
			exchange(t, filepath.Join(root, "s"), filepath.Join(root, "l"))
			mounted, refused := 0, 0
			for deadline := time.Now().Add(2 * time.Minute); (mounted < 300 || refused < 10) && time.Now().Before(deadline); {
				if _, err := os.Stat(filepath.Join(outside, "new")); err == nil {
					t.Fatalf("after %d mounts, %d refused: a directory was made outside of the volume", mounted, refused)
				}
				path, err := v.MountSubPath(SubPath{UID: "u", Container: "c", Volume: "v", Root: root, Path: sub})
				if err != nil {
					refused++
					continue
				}
				mounted++
				var at, out unix.Stat_t
				if err := errors.Join(unix.Stat(path, &at), unix.Stat(filepath.Join(outside, "deep"), &out)); err != nil {
					t.Fatal(err)
				}
				_, direct := os.Stat(filepath.Join(path, "deep", "outside"))
				if at.Ino == out.Ino || direct == nil {
					t.Fatalf("after %d mounts, %d refused: a directory outside of the volume is mounted", mounted, refused)
				}
			}
			if mounted == 0 || refused == 0 {
				t.Errorf("%d were mounted and %d refused: the race was not exercised", mounted, refused)
			}
			if err := v.ReleaseSubPaths("u", func(string) bool { return false }); err != nil {
				t.Error(err)
			}
			if points, err := mountsBelow(v.PodDir("u")); err != nil || len(points) > 0 {
				t.Errorf("still mounted: %q, %v", points, err)
			}
		})
	}
}

func TestSubPath(t *testing.T) {
	mayMount(t)
	v := newTestVolumes(t, false)
	root := t.TempDir()
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "dir", "file"), "text")
	symlink(t, "dir", filepath.Join(root, "in"))
	symlink(t, "../dir", filepath.Join(root, "dir", "up"))
	symlink(t, "/etc", filepath.Join(root, "out"))
	symlink(t, "nowhere", filepath.Join(root, "dangling"))
	symlink(t, "/proc/self/root", filepath.Join(root, "magic"))
	mount := func(path string) (string, error) {
		return v.MountSubPath(SubPath{UID: "u", Container: "c", Volume: "v", Index: 3, Root: root, Path: path})
	}
	for _, path := range []string{"../x", "/etc", "dir/../../x", "dir/..", "out/passwd", "out", "out/new", "dangling", "dangling/x", "magic", "magic/etc", "dir/file/x"} {
		if at, err := mount(path); err == nil {
			t.Errorf("%q is mounted at %s", path, at)
		}
	}
	for path, file := range map[string]string{"dir": "file", "in": "file", "in/up": "file", "dir/file": "", ".": "dir/file", "in/file": ""} {
		at, err := mount(path)
		if err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		if at != filepath.Join(v.PodDir("u"), "volume-subpaths", "v", "c", "3") {
			t.Errorf("%q is mounted at %s", path, at)
		}
		if text, err := os.ReadFile(filepath.Join(at, file)); err != nil || string(text) != "text" {
			t.Errorf("%q holds %q, %v", path, text, err)
		}
	}
	at, err := mount("made/by/the agent")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{at, filepath.Join(root, "made/by/the agent"), filepath.Join(root, "made")} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("%s has mode %v, want the volume's, %v", dir, info.Mode(), err)
		}
	}
	if _, err := v.MountSubPath(SubPath{UID: "u", Container: "c", Volume: "v", Root: filepath.Join(root, "dir/file"), Path: "x"}); err == nil {
		t.Error("a subPath of a volume that is a file was mounted")
	}
	for _, name := range []string{"", ".", "..", "a/b", "/"} {
		for _, s := range []SubPath{{UID: name, Container: "c", Volume: "v"}, {UID: "u", Container: name, Volume: "v"}, {UID: "u", Container: "c", Volume: name}} {
			s.Root, s.Path = root, "dir"
			if at, err := v.MountSubPath(s); err == nil {
				t.Errorf("%+v is mounted at %s", s, at)
			}
		}
	}
}

// TestSubPathsGo creates mounts for two containers. An agent that did not create them removes them,
// and the volume loses nothing.
func TestSubPathsGo(t *testing.T) {
	mayMount(t)
	v := newTestVolumes(t, false)
	root := t.TempDir()
	write(t, filepath.Join(root, "dir", "file"), "text")
	var paths []string
	for i, s := range []SubPath{{Container: "a", Path: "dir"}, {Container: "a", Path: "dir/file"}, {Container: "b", Path: "dir"}} {
		s.UID, s.Volume, s.Index, s.Root = "u", "v", i, root
		path, err := v.MountSubPath(s)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	// The kernel does not list a path that leads through a link.
	linked := filepath.Join(t.TempDir(), "link")
	symlink(t, v.cfg.Dir, linked)
	next := New(Config{Dir: linked, Client: v.cfg.Client, Logger: v.cfg.Logger})
	if err := next.ReleaseSubPaths("u", func(container string) bool { return container == "b" }); err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		if _, err := os.Lstat(path); (err == nil) != (i == 2) {
			t.Errorf("mount %d: %v", i, err)
		}
	}
	if points, err := mountsBelow(v.PodDir("u")); err != nil || !slices.Equal(points, paths[2:]) {
		t.Errorf("the mount points are %q, %v", points, err)
	}
	if err := next.Remove("u"); err != nil {
		t.Fatal(err)
	}
	if points, err := mountsBelow(v.cfg.Dir); err != nil || len(points) > 0 {
		t.Errorf("the mount points are %q, %v", points, err)
	}
	if text, err := os.ReadFile(filepath.Join(root, "dir", "file")); err != nil || string(text) != "text" {
		t.Errorf("the volume lost its content: %q, %v", text, err)
	}
}

// TestSubPathSimulated checks subPaths for a user who may not mount.
func TestSubPathSimulated(t *testing.T) {
	v := newTestVolumes(t, true)
	root := t.TempDir()
	symlink(t, "/etc", filepath.Join(root, "out"))
	path, err := v.MountSubPath(SubPath{UID: "u", Container: "c", Volume: "v", Root: root, Path: "a/b"})
	if err != nil || path != filepath.Join(root, "a/b") {
		t.Errorf("%s, %v", path, err)
	}
	if _, err := os.Stat(v.PodDir("u")); err == nil {
		t.Error("mount points were created")
	}
	if path, err := v.MountSubPath(SubPath{UID: "u", Container: "c", Volume: "v", Root: root, Path: "out/x"}); err == nil {
		t.Errorf("%s leads out of the volume", path)
	}
}

// TestSubPathsStayBeneath opens random paths in random trees with links: the opened file is in the
// tree, and nothing is created outside of it.
func TestSubPathsStayBeneath(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "c"})
	path := rapid.Custom(func(t *rapid.T) string {
		return filepath.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts")...)
	})
	target := rapid.Custom(func(t *rapid.T) string {
		up := rapid.SampledFrom([]string{"", "", "../", "../../", "../../../", "/", "/proc/self/root/", "OUTSIDE/"}).Draw(t, "up")
		return up + path.Draw(t, "target")
	})
	rapid.Check(t, func(t *rapid.T) {
		parent, err := os.MkdirTemp("", "subpath") //nolint:usetesting // One directory for each of many cases.
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(parent) }()
		root, outside := filepath.Join(parent, "root"), filepath.Join(parent, "outside")
		if err := errors.Join(os.Mkdir(root, 0o755), os.MkdirAll(filepath.Join(outside, "a/b/c"), 0o755)); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			at := filepath.Join(root, path.Draw(t, "entry"))
			_ = os.MkdirAll(filepath.Dir(at), 0o755) // A file or link may be in the way.
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				_ = os.Mkdir(at, 0o755)
			case 1:
				_ = os.WriteFile(at, nil, 0o644)
			default:
				_ = os.Symlink(strings.ReplaceAll(target.Draw(t, "link"), "OUTSIDE", outside), at)
			}
		}
		before := tree(t, outside)
		f, err := openSubPath(root, path.Draw(t, "subPath"))
		if err == nil {
			at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
			if err != nil || at != root && !strings.HasPrefix(at, root+"/") {
				t.Errorf("%s was opened, %v", at, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		if after := tree(t, outside); !slices.Equal(before, after) {
			t.Errorf("outside of the volume: got %q, want %q", after, before)
		}
	})
}

func tree(t *rapid.T, dir string) []string {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestManyRemovesAtOnce creates and removes pods concurrently: they share the list of mounts.
func TestManyRemovesAtOnce(t *testing.T) {
	mayMount(t)
	v := newTestVolumes(t, false)
	root := t.TempDir()
	write(t, filepath.Join(root, "dir", "file"), "text")
	done := make(chan error)
	for i := range 8 {
		go func() {
			var err error
			uid := "pod" + strconv.Itoa(i)
			for range 10 + rand.IntN(5) {
				_, mountErr := v.MountSubPath(SubPath{UID: uid, Container: "c", Volume: "v", Root: root, Path: "dir"})
				err = errors.Join(err, mountErr, v.Remove(uid))
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "dir", "file")); err != nil || string(text) != "text" {
		t.Errorf("the volume lost its content: %q, %v", text, err)
	}
}
