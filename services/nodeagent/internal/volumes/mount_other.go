//go:build !linux

package volumes

import (
	"errors"
	"os"
)

var errMounts = errors.New("mounts are supported on Linux only")

func mountMemory(string, int64, os.FileMode) (bool, error) { return false, errMounts }

func isMountPoint(string) (bool, error) { return false, nil }

func bindFile(*os.File, string) error { return errMounts }

func unmount(string) error { return nil }

func unmountBelow(string) error { return nil }
