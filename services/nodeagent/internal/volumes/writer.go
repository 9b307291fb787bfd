package volumes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is one file of a volume.
type file struct {
	data []byte
	mode os.FileMode
	// owner is the user that owns it; nil for the agent's own.
	owner *int64
}

const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
)

// writeFiles makes files, by their paths below dir, the content of dir. Readers see all of
// the old content or all of the new.
func writeFiles(dir string, files map[string]file, group *int64) error {
	for name := range files {
		if err := checkPath(name); err != nil {
			return err
		}
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the present version: %w", err)
	}
	if old != "" && same(filepath.Join(dir, old), files, group) {
		return link(dir, files)
	}
	fresh, err := os.MkdirTemp(dir, time.Now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return fmt.Errorf("making a new version: %w", err)
	}
	if err := fill(fresh, files, group); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	tmp := filepath.Join(dir, newDataLink)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a version that was never finished: %w", err)
	}
	if err := os.Symlink(filepath.Base(fresh), tmp); err != nil {
		return fmt.Errorf("linking the new version: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, dataLink)); err != nil {
		return fmt.Errorf("swapping to the new version: %w", err)
	}
	if err := link(dir, files); err != nil {
		return err
	}
	return removeVersions(dir, filepath.Base(fresh))
}

// removeVersions deletes every version but the present one, those of an agent that was
// killed in the middle of a swap included.
func removeVersions(dir, present string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing old versions: %w", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); entry.IsDir() && strings.HasPrefix(name, "..") && name != present {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("removing an old version: %w", err)
			}
		}
	}
	return nil
}

func checkPath(name string) error {
	if !filepath.IsLocal(name) || strings.HasPrefix(name, "..") {
		return fmt.Errorf("invalid path: %q must be relative, without %q, and not begin with %q", name, "..", "..")
	}
	return nil
}

// same says whether a version holds exactly files.
func same(version string, files map[string]file, group *int64) bool {
	found := 0
	err := filepath.WalkDir(version, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(version, path)
		if err != nil {
			return err
		}
		want, ok := files[name]
		if !ok {
			return fs.SkipAll
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(data, want.data) || info.Mode().Perm() != want.perm(group) {
			return fs.SkipAll
		}
		found++
		return nil
	})
	return err == nil && found == len(files) && count(version) == len(files)
}

func count(version string) int {
	n := 0
	err := filepath.WalkDir(version, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		return -1
	}
	return n
}

// perm is the mode on disk: a pod's fsGroup may always read.
func (f file) perm(group *int64) os.FileMode {
	if group == nil {
		return f.mode.Perm()
	}
	return f.mode.Perm() | 0o040
}

func fill(version string, files map[string]file, group *int64) error {
	if err := os.Chmod(version, 0o755); err != nil {
		return fmt.Errorf("opening the new version to readers: %w", err)
	}
	for name, f := range files {
		path := filepath.Join(version, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the directory of %s: %w", name, err)
		}
		if err := os.WriteFile(path, f.data, f.perm(group)); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		// The umask took part in the mode that WriteFile set.
		if err := os.Chmod(path, f.perm(group)); err != nil {
			return fmt.Errorf("setting the mode of %s: %w", name, err)
		}
		uid, gid := -1, -1
		if f.owner != nil {
			uid = int(*f.owner)
		}
		if group != nil {
			gid = int(*group)
		}
		if uid != -1 || gid != -1 {
			if err := os.Chown(path, uid, gid); err != nil {
				return fmt.Errorf("setting the owner of %s: %w", name, err)
			}
		}
	}
	return nil
}

// link makes the names that users see point through the data link, and removes those of
// files that are gone.
func link(dir string, files map[string]file) error {
	wanted := map[string]bool{}
	for name := range files {
		top, _, _ := strings.Cut(name, string(filepath.Separator))
		wanted[top] = true
	}
	for name := range wanted {
		target, path := filepath.Join(dataLink, name), filepath.Join(dir, name)
		if present, err := os.Readlink(path); err == nil && present == target {
			continue
		}
		if err := os.Symlink(target, path); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing the volume: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, "..") || wanted[name] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("removing the link %s: %w", name, err)
		}
	}
	return nil
}
