package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// subPathsDir is where subPaths are mounted: <pod>/volume-subpaths/<volume>/<container>/<index>, as
// in the kubelet.
const subPathsDir = "volume-subpaths"

// SubPath is a container mount that shows part of a volume.
type SubPath struct {
	// UID is the pod's. Container and Volume are names in the pod, and Index is the index of the
	// mount among those of the container.
	UID, Container, Volume string
	Index                  int
	// Root is the volume's path on the host, and Path the part to show, relative to it.
	Root, Path string
}

// MountSubPath returns the host path at which a container finds part of a volume: a bind mount of
// the file that Path led to when it was opened. No later change in the volume redirects it. Missing
// directories are created. It refuses a path that leads out of the volume, by ".." or by a link
// that a container left.
//
// It replaces an earlier mount of the same UID, Volume, Container and Index. ReleaseSubPaths and
// Remove remove the mount. Under the simulated runtime nothing is mounted, and the path is in the
// volume.
func (v *Volumes) MountSubPath(s SubPath) (string, error) {
	if !filepath.IsLocal(s.Path) || slices.Contains(strings.Split(filepath.ToSlash(s.Path), "/"), "..") {
		return "", fmt.Errorf("the subPath %q must be relative and must not contain \"..\"", s.Path)
	}
	for _, name := range []string{s.UID, s.Volume, s.Container} {
		if !isName(name) {
			return "", fmt.Errorf("mounting a subPath: %q is not a name", name)
		}
	}
	source, err := openSubPath(s.Root, s.Path)
	if err != nil {
		return "", err
	}
	defer func() { _ = source.Close() }()
	if v.cfg.Simulated {
		return filepath.Join(s.Root, s.Path), nil
	}
	info, err := source.Stat()
	if err != nil {
		return "", fmt.Errorf("reading the subPath %q: %w", s.Path, err)
	}
	dir := filepath.Join(v.PodDir(s.UID), subPathsDir, s.Volume, s.Container)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("creating the directory of the mount: %w", err)
	}
	target := filepath.Join(dir, strconv.Itoa(s.Index))
	if err := release(target); err != nil {
		return "", err
	}
	if err := makeTarget(target, info.IsDir()); err != nil {
		return "", fmt.Errorf("creating the mount point: %w", err)
	}
	if err := bindFile(source, target); err != nil {
		return "", errors.Join(fmt.Errorf("mounting the subPath %q: %w", s.Path, err), os.Remove(target))
	}
	return target, nil
}

// makeTarget creates a mount point. A file serves for everything that is not a directory.
func makeTarget(path string, isDir bool) error {
	if isDir {
		return os.Mkdir(path, 0o750)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}

// release unmounts target and removes the mount point. It never removes what was mounted there.
func release(target string) error {
	if err := unmount(target); err != nil {
		return fmt.Errorf("unmounting a subPath: %w", err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the mount point of a subPath: %w", err)
	}
	return nil
}

// ReleaseSubPaths removes the subPath mounts of the containers of a pod that are not in use.
func (v *Volumes) ReleaseSubPaths(uid string, inUse func(container string) bool) error {
	if !isName(uid) {
		return fmt.Errorf("releasing the subPaths of a pod: %q is not a UID", uid)
	}
	var faults []error
	dir := filepath.Join(v.PodDir(uid), subPathsDir)
	for _, volume := range namesIn(dir, &faults) {
		ofVolume := filepath.Join(dir, volume)
		for _, container := range namesIn(ofVolume, &faults) {
			if inUse(container) {
				continue
			}
			ofContainer := filepath.Join(ofVolume, container)
			for _, index := range namesIn(ofContainer, &faults) {
				faults = append(faults, release(filepath.Join(ofContainer, index)))
			}
			_ = os.Remove(ofContainer) // It stays while something could not be released.
		}
		_ = os.Remove(ofVolume)
	}
	return errors.Join(faults...)
}

// namesIn lists one of the agent's own directories; a missing one is empty.
func namesIn(dir string, faults *[]error) []string {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		*faults = append(*faults, fmt.Errorf("listing the subPaths: %w", err))
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func isName(name string) bool {
	return name != "" && name != "." && filepath.IsLocal(name) && filepath.Base(name) == name
}
