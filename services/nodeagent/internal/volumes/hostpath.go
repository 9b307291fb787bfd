package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// checkHostPath creates or checks the path of a hostPath volume, according to its type.
func checkHostPath(source *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	path := source.Path
	info, err := os.Stat(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	is := func(ok bool, what string) error {
		if missing || !ok {
			return fmt.Errorf("hostPath type check failed: %s is not %s", path, what)
		}
		return nil
	}
	switch kind {
	case corev1.HostPathUnset:
		return nil
	case corev1.HostPathDirectoryOrCreate:
		if missing {
			return os.MkdirAll(path, 0o755)
		}
		return is(info.IsDir(), "a directory")
	case corev1.HostPathDirectory:
		return is(!missing && info.IsDir(), "a directory")
	case corev1.HostPathFileOrCreate:
		if missing {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return is(info.Mode().IsRegular(), "a file")
	case corev1.HostPathFile:
		return is(!missing && info.Mode().IsRegular(), "a file")
	case corev1.HostPathSocket:
		return is(!missing && info.Mode()&fs.ModeSocket != 0, "a socket file")
	case corev1.HostPathCharDev:
		return is(!missing && info.Mode()&fs.ModeCharDevice != 0, "a character device")
	case corev1.HostPathBlockDev:
		return is(!missing && info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0, "a block device")
	}
	return fmt.Errorf("hostPath type %q is not known", kind)
}
