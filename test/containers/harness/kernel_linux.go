package harness

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// detach detaches a mount even if it is in use; a missing mount is not an error.
func detach(point string) error {
	if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", point, err)
	}
	return nil
}

// removeBridge takes a bridge down and removes it; a missing bridge is not an error. It uses ioctl,
// so that no tool is needed.
func removeBridge(name string) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("removing the bridge %s: %w", name, err)
	}
	defer func() { _ = syscall.Close(fd) }()
	var request struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:syscall.IFNAMSIZ-1], name)
	const removeBridgeCall = 0x89a1 // SIOCBRDELBR
	for _, call := range []uintptr{syscall.SIOCSIFFLAGS, removeBridgeCall} {
		pointer := unsafe.Pointer(&request)
		if call == removeBridgeCall {
			pointer = unsafe.Pointer(&request.name)
		}
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), call, uintptr(pointer))
		if errno == syscall.ENODEV || errno == syscall.ENXIO {
			return nil
		}
		if errno != 0 {
			return fmt.Errorf("removing the bridge %s: %w", name, errno)
		}
	}
	return nil
}
