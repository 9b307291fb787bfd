package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SubPath gives the path on the host of a mount's subPath in the volume at root, and makes a
// directory of it if nothing is there. A subPath that leads out of the volume, by ".." or by
// a symbolic link that a container left, is refused.
func SubPath(root, sub string) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("the subPath %q must be relative and must not contain \"..\"", sub)
	}
	inside, err := os.OpenRoot(root)
	if err != nil {
		return "", fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = inside.Close() }()
	if _, err := inside.Stat(sub); errors.Is(err, fs.ErrNotExist) {
		if err := inside.MkdirAll(sub, 0o750); err != nil {
			return "", fmt.Errorf("failed to create subPath directory %q: %w", sub, err)
		}
	} else if err != nil {
		return "", fmt.Errorf("the subPath %q: %w", sub, err)
	}
	base, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", fmt.Errorf("resolving the volume's path: %w", err)
	}
	path, err := filepath.EvalSymlinks(filepath.Join(base, sub))
	if err != nil {
		return "", fmt.Errorf("resolving the subPath %q: %w", sub, err)
	}
	if path != base && !strings.HasPrefix(path, base+string(filepath.Separator)) {
		return "", fmt.Errorf("the subPath %q leads out of the volume", sub)
	}
	return path, nil
}
