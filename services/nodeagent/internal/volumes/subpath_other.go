//go:build !linux

package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// openSubPath opens sub in the volume at root and creates missing directories.
func openSubPath(root, sub string) (*os.File, error) {
	volume, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = volume.Close() }()
	if _, err := volume.Stat(sub); errors.Is(err, fs.ErrNotExist) {
		if err := volume.MkdirAll(sub, 0o750); err != nil {
			return nil, fmt.Errorf("failed to create subPath directory %q: %w", sub, err)
		}
	}
	found, err := volume.Open(sub)
	if err != nil {
		return nil, fmt.Errorf("the subPath %q: %w", sub, err)
	}
	return found, nil
}
