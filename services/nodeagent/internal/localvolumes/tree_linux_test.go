package localvolumes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// deep nests directories to a depth that no path reaches, with a file at each level.
func deep(t *testing.T, dir string, depth int) {
	t.Helper()
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		fd := int(at.Fd())
		if err := errors.Join(unix.Mkdirat(fd, "directory", 0o700), unix.Mknodat(fd, "file", unix.S_IFREG|0o600, 0)); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "directory", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = at.Close()
		at = os.NewFile(uintptr(next), "directory")
	}
	_ = at.Close()
}

func quiet(int) {}

// TestHostileTrees: a folder is removed whatever a container left in it, and nothing else is.
func TestHostileTrees(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	root := filepath.Join(dir, "pvc-1")
	kept := filepath.Join(outside, "kept")
	if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(kept, []byte("x"), 0o600), os.Symlink(outside, filepath.Join(root, "link")),
		os.Symlink("..", filepath.Join(root, "up")), os.Symlink("link/kept", filepath.Join(root, "link-to-file")), os.Mkdir(filepath.Join(root, "closed"), 0o000),
		os.WriteFile(filepath.Join(root, aside+"1"), nil, 0o600), os.Mkdir(filepath.Join(root, aside+"2"), 0o755),
		syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600), os.Mkdir(filepath.Join(dir, "pvc-2"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * chunk {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprint("many-", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deep(t, root, 3000)
	if os.Geteuid() != 0 {
		_ = os.Chmod(filepath.Join(root, "closed"), 0o700)
	}
	if err := removeTree(t.Context(), dir, "pvc-1", quiet); err != nil {
		t.Fatal(err)
	}
	if exists(root) || !exists(kept) || !exists(filepath.Join(dir, "pvc-2")) {
		t.Errorf("the tree is there: %v, what it linked to: %v, its neighbour: %v", exists(root), exists(kept), exists(filepath.Join(dir, "pvc-2")))
	}
	if err := removeTree(t.Context(), dir, "pvc-1", quiet); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

// TestALinkInPlaceOfAFolder: what the folder's name leads to is not touched.
func TestALinkInPlaceOfAFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	kept := filepath.Join(outside, "kept")
	if err := errors.Join(os.WriteFile(kept, nil, 0o600), os.Symlink(outside, filepath.Join(dir, "pvc-1"))); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(t.Context(), dir, "pvc-1", quiet); err == nil || !exists(kept) {
		t.Errorf("%v, what it links to is there: %v", err, exists(kept))
	}
}

// TestAnInterruptedRemovalContinues: an agent that ends in the middle leaves the rest to the next one.
func TestAnInterruptedRemovalContinues(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pvc-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	deep(t, filepath.Join(dir, "pvc-1"), 500)
	ctx, cancel := context.WithCancel(t.Context())
	err := removeTree(ctx, dir, "pvc-1", func(removed int) {
		if removed > 100 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !exists(filepath.Join(dir, "pvc-1")) {
		t.Fatalf("got %v", err)
	}
	if err := removeTree(t.Context(), dir, "pvc-1", quiet); err != nil || exists(filepath.Join(dir, "pvc-1")) {
		t.Errorf("got %v", err)
	}
}

// TestAMountInAFolder: what a privileged container mounted is not emptied.
func TestAMountInAFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	dir := t.TempDir()
	mount := filepath.Join(dir, "pvc-1", "mount")
	if err := os.MkdirAll(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, ""); err != nil {
		t.Skipf("mounting: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(mount, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := removeTree(t.Context(), dir, "pvc-1", quiet)
	if err == nil || !strings.Contains(err.Error(), `a file system is mounted at "mount"`) || !exists(filepath.Join(mount, "kept")) {
		t.Errorf("got %v", err)
	}
}

// TestGroup: an fsGroup gets everything in the folder, and nothing that links lead to.
func TestGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change groups")
	}
	const group = 2345
	dir, outside := t.TempDir(), t.TempDir()
	root, kept := filepath.Join(dir, "pvc-1"), filepath.Join(outside, "kept")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "sub"), 0o700), os.WriteFile(filepath.Join(root, "sub", "file"), nil, 0o600),
		os.WriteFile(kept, nil, 0o600), os.Symlink(kept, filepath.Join(root, "link")), os.Symlink(outside, filepath.Join(root, "sub", "link")),
		syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	stat := func(path string) (int, os.FileMode) {
		t.Helper()
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Sys().(*syscall.Stat_t).Gid), info.Mode()
	}
	if err := ownTree(t.Context(), dir, "pvc-1", group, true); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		"": 0o770 | os.ModeDir | os.ModeSetgid, "sub": 0o770 | os.ModeDir | os.ModeSetgid, "sub/file": 0o660, "fifo": 0o660 | os.ModeNamedPipe,
	} {
		if gid, mode := stat(filepath.Join(root, path)); gid != group || mode != want {
			t.Errorf("%q: group %d, mode %v, want %v", path, gid, mode, want)
		}
	}
	if gid, _ := stat(filepath.Join(root, "link")); gid != group {
		t.Errorf("the link's group is %d", gid)
	}
	for _, path := range []string{kept, outside} {
		if gid, mode := stat(path); gid == group || mode.Perm()&0o060 == 0o060 {
			t.Errorf("%s outside: group %d, mode %v", path, gid, mode)
		}
	}
	// With a root as it should be, the rest is left alone; without that wish it is not.
	file := filepath.Join(root, "sub", "file")
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ownTree(t.Context(), dir, "pvc-1", group, true); err != nil {
		t.Fatal(err)
	}
	if _, mode := stat(file); mode != 0o600 {
		t.Errorf("with a matching root: %v", mode)
	}
	if err := ownTree(t.Context(), dir, "pvc-1", group, false); err != nil {
		t.Fatal(err)
	}
	if _, mode := stat(file); mode != 0o660 {
		t.Errorf("always: %v", mode)
	}
	deep(t, root, maxOwned+1)
	if err := ownTree(t.Context(), dir, "pvc-1", group, false); err == nil || !strings.Contains(err.Error(), "deeper than 512 levels") {
		t.Errorf("a tree without end: %v", err)
	}
}
