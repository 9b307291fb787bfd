package volumes

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// setupEmptyDir creates an emptyDir, in memory if its medium says so, open to every user of the
// pod.
func (v *Volumes) setupEmptyDir(dir string, source *corev1.EmptyDirVolumeSource, group *int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the directory: %w", err)
	}
	switch source.Medium {
	case corev1.StorageMediumDefault:
	case corev1.StorageMediumMemory:
		size := int64(0)
		if source.SizeLimit != nil {
			size = source.SizeLimit.Value()
		}
		if v.cfg.Simulated {
			v.sayOnDisk(errSimulated)
			break
		}
		if _, err := mountMemory(dir, size, os.ModePerm); err != nil {
			return fmt.Errorf("mounting memory: %w", err)
		}
	default:
		return fmt.Errorf("the emptyDir medium %q is not supported by this node agent", source.Medium)
	}
	mode := os.ModePerm
	if group != nil {
		if err := os.Chown(dir, -1, int(*group)); err != nil {
			return fmt.Errorf("giving the directory to the pod's fsGroup: %w", err)
		}
		mode |= os.ModeSetgid
	}
	// MkdirAll's mode is subject to the umask.
	if err := os.Chmod(dir, mode); err != nil {
		return fmt.Errorf("opening the directory to the pod's users: %w", err)
	}
	return nil
}
