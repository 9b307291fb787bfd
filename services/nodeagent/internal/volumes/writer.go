package volumes

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one file of a volume.
type file struct {
	data []byte
	mode os.FileMode
	// owner is the user that owns the file; nil for the agent's own.
	owner *int64
}

// version is what was last written to a volume. The agent keeps it in memory and never compares it
// with the volume's content, which a container may have changed.
type version struct {
	// name is the directory of the version in the volume.
	name   string
	digest [sha256.Size]byte
}

const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"

	// maxEntries bounds how many entries of a volume's directory one write reads. No API object can
	// fill that many.
	maxEntries = 1 << 20
	// maxNames bounds the search for a free name.
	maxNames = 10
)

// writeFiles makes files, keyed by path below dir, the content of dir. last is the version written
// before. Readers see all of the old content or all of the new.
//
// Everything in dir is treated as hostile: files are only created, exclusively, and no link is
// followed out of dir.
func writeFiles(dir string, files map[string]file, group *int64, last version) (version, error) {
	files, err := clean(files)
	if err != nil {
		return last, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return last, fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = root.Close() }()
	next := version{digest: digest(files, group)}
	if next.digest == last.digest && present(root, last.name) {
		next = last
	} else if next.name, err = swap(root, files, group); err != nil {
		return version{}, err
	}
	if err := link(root, files); err != nil {
		return version{}, err
	}
	return next, tidy(root, files, next.name)
}

// clean checks the paths of files and returns the files under cleaned paths.
func clean(files map[string]file) (map[string]file, error) {
	cleaned := make(map[string]file, len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := checkPath(name); err != nil {
			return nil, err
		}
		cleaned[filepath.Clean(name)] = files[name]
	}
	return cleaned, nil
}

func checkPath(name string) error {
	if !filepath.IsLocal(name) || strings.HasPrefix(filepath.Clean(name), "..") || filepath.Clean(name) == "." {
		return fmt.Errorf("invalid path: %q must be relative, without %q, and not begin with %q", name, "..", "..")
	}
	return nil
}

// digest returns a hash of the files' contents, paths, modes and owners.
func digest(files map[string]file, group *int64) [sha256.Size]byte {
	h := sha256.New()
	field := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	id := func(id *int64) {
		if id == nil {
			field(nil)
			return
		}
		field(fmt.Append(nil, *id))
	}
	id(group)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		field([]byte(name))
		field(f.data)
		field(fmt.Append(nil, f.perm(group)))
		id(f.owner)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// present reports whether the volume still shows the version called name.
func present(root *os.Root, name string) bool {
	shown, err := root.Readlink(dataLink)
	if err != nil || name == "" || shown != name {
		return false
	}
	info, err := root.Lstat(name)
	return err == nil && info.IsDir()
}

// swap writes a new version, makes the volume show it instead of the present one, and returns its
// name.
func swap(root *os.Root, files map[string]file, group *int64) (string, error) {
	name, err := newVersion(root)
	if err != nil {
		return "", err
	}
	if err := fill(root, name, files, group); err != nil {
		return "", errors.Join(err, root.RemoveAll(name))
	}
	if err := root.RemoveAll(newDataLink); err != nil {
		return "", fmt.Errorf("removing an unfinished version: %w", err)
	}
	if err := root.Symlink(name, newDataLink); err != nil {
		return "", fmt.Errorf("linking the new version: %w", err)
	}
	if info, err := root.Lstat(dataLink); err == nil && info.IsDir() {
		if err := root.RemoveAll(dataLink); err != nil {
			return "", fmt.Errorf("removing a directory in place of the present version: %w", err)
		}
	}
	if err := root.Rename(newDataLink, dataLink); err != nil {
		return "", fmt.Errorf("swapping to the new version: %w", err)
	}
	return name, nil
}

// newVersion creates the directory of a new version, under an unpredictable name.
func newVersion(root *os.Root) (string, error) {
	for try := 1; ; try++ {
		name := time.Now().UTC().Format("..2006_01_02_15_04_05.") + rand.Text()[:10]
		err := root.Mkdir(name, 0o755)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrExist) || try == maxNames {
			return "", fmt.Errorf("creating a new version: %w", err)
		}
	}
}

// perm returns the mode on disk: a pod's fsGroup may always read.
func (f file) perm(group *int64) os.FileMode {
	if group == nil {
		return f.mode.Perm()
	}
	return f.mode.Perm() | 0o040
}

// fill writes files into the new version called name.
func fill(root *os.Root, name string, files map[string]file, group *int64) error {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("opening the new version: %w", err)
	}
	defer func() { _ = dir.Close() }()
	// Mkdir's mode is subject to the umask.
	if err := dir.Chmod(".", 0o755); err != nil {
		return fmt.Errorf("opening the new version to readers: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := makeParents(dir, name); err != nil {
			return fmt.Errorf("creating the directory of %s: %w", name, err)
		}
		if err := create(dir, name, files[name], group); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// makeParents creates the parent directories of the file called name.
func makeParents(dir *os.Root, name string) error {
	for i, c := range name {
		if c != filepath.Separator {
			continue
		}
		err := dir.Mkdir(name[:i], 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = dir.Chmod(name[:i], 0o755)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// create creates one file, which must not exist yet.
func create(dir *os.Root, name string, f file, group *int64) (err error) {
	out, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, bytes.NewReader(f.data)); err != nil {
		return err
	}
	uid, gid := -1, -1
	if f.owner != nil {
		uid = int(*f.owner)
	}
	if group != nil {
		gid = int(*group)
	}
	if uid != -1 || gid != -1 {
		if err := out.Chown(uid, gid); err != nil {
			return err
		}
	}
	return out.Chmod(f.perm(group))
}

// link makes the names that users see point through the data link.
func link(root *os.Root, files map[string]file) error {
	for name := range tops(files) {
		target := filepath.Join(dataLink, name)
		if shown, err := root.Readlink(name); err == nil && shown == target {
			continue
		}
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("removing what is in place of %s: %w", name, err)
		}
		if err := root.Symlink(target, name); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}

// tops returns the first components of the files' paths.
func tops(files map[string]file) map[string]bool {
	names := make(map[string]bool, len(files))
	for name := range files {
		top, _, _ := strings.Cut(name, string(filepath.Separator))
		names[top] = true
	}
	return names
}

// tidy removes everything that is neither one of the files nor the version called name: old
// versions, versions of an agent killed in the middle of a swap, and names of removed files.
func tidy(root *os.Root, files map[string]file, name string) error {
	wanted := tops(files)
	wanted[dataLink], wanted[name] = true, true
	dir, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("listing the volume: %w", err)
	}
	defer func() { _ = dir.Close() }()
	for seen := 0; seen < maxEntries; {
		names, err := dir.Readdirnames(1024)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing the volume: %w", err)
		}
		seen += len(names)
		for _, entry := range names {
			if wanted[entry] {
				continue
			}
			if err := root.RemoveAll(entry); err != nil {
				return fmt.Errorf("removing %s: %w", entry, err)
			}
		}
	}
	return fmt.Errorf("the volume's directory holds more than %d entries", maxEntries)
}
