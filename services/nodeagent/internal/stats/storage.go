package stats

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

const (
	// maxLogs bounds how many files of a container's log are counted: the agent keeps far fewer.
	maxLogs = 64
	// blockSize is the unit of the kernel's count of a file's blocks, in bytes.
	blockSize = 512
)

// filesystem returns the size and use of the file system of a path, and the number of its device.
func filesystem(path string, now metav1.Time) (*statsapi.FsStats, uint64, error) {
	var size syscall.Statfs_t
	if err := syscall.Statfs(path, &size); err != nil {
		return nil, 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	var node syscall.Stat_t
	if err := syscall.Stat(path, &node); err != nil {
		return nil, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	block := uint64(size.Bsize) //nolint:gosec // A size of blocks is positive.
	capacity, used := size.Blocks*block, less(size.Blocks, size.Bfree)*block
	available := uint64(size.Bavail) * block       //nolint:unconvert // its type differs by platform
	inodes, free := size.Files, uint64(size.Ffree) //nolint:unconvert // its type differs by platform
	taken := less(inodes, free)
	return &statsapi.FsStats{
		Time: now, CapacityBytes: &capacity, AvailableBytes: &available, UsedBytes: &used,
		Inodes: &inodes, InodesFree: &free, InodesUsed: &taken,
	}, uint64(node.Dev), nil //nolint:unconvert,gosec // its type differs by platform
}

// used returns a file system with another use than its own.
func used(of *statsapi.FsStats, bytes, inodes *uint64, at metav1.Time) *statsapi.FsStats {
	found := statsapi.FsStats{Time: at}
	if of != nil {
		found = *of
		found.Time = at
	}
	found.UsedBytes, found.InodesUsed = bytes, inodes
	return &found
}

// disks are the file systems of the node.
type disks struct {
	node   *statsapi.FsStats
	device uint64 // of node
	image  *statsapi.FsStats
	// layers has the file systems of containers' writable layers by mount point.
	layers map[string]*statsapi.FsStats
}

// disks reads the file systems of the node and of images.
func (p *Provider) disks(ctx context.Context, now metav1.Time) (*disks, error) {
	node, device, err := filesystem(p.cfg.DataDir, now)
	if err != nil {
		return nil, err
	}
	found := &disks{node: node, device: device, layers: map[string]*statsapi.FsStats{}}
	images, err := p.cfg.Runtime.ImageFilesystem(ctx)
	if err != nil {
		return nil, err
	}
	found.image = used(found.layer(images.Mountpoint, now), images.Used, images.Inodes, metav1.NewTime(images.At))
	return found, nil
}

// layer returns the file system of a mount point that the runtime names; nil if it is not on this machine.
func (d *disks) layer(mountpoint string, now metav1.Time) *statsapi.FsStats {
	if !filepath.IsAbs(mountpoint) {
		return nil
	}
	found, ok := d.layers[mountpoint]
	if !ok {
		found, _, _ = filesystem(mountpoint, now)
		d.layers[mountpoint] = found
	}
	return found
}

// logs returns the space that the logs of a container take. It looks only at the folder's own files.
func (d *disks) logs(container *runtime.Container, now metav1.Time) *statsapi.FsStats {
	if container.LogPath == "" {
		return nil
	}
	folder, err := os.Open(filepath.Dir(container.LogPath))
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	names, err := folder.Readdirnames(maxLogs)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	bytes, files := uint64(0), uint64(1) // The folder is one.
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(filepath.Dir(container.LogPath), name))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if node, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += uint64(node.Blocks) * blockSize //nolint:gosec // A number of blocks is not negative.
			files++
		}
	}
	return used(d.node, &bytes, &files, now)
}

// volumes returns the use of a pod's volumes, as their file systems tell it. A volume that shares the file
// system of the node has no use of its own: counting its files would take as long as its pod likes.
func (p *Provider) volumes(pod *corev1.Pod, d *disks, now metav1.Time) []statsapi.VolumeStats {
	if pod == nil || p.cfg.VolumePaths == nil {
		return nil
	}
	paths := p.cfg.VolumePaths(string(pod.UID))
	var found []statsapi.VolumeStats
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		path := paths[volume.Name]
		if path == "" || volume.HostPath != nil || !p.own(path) {
			continue
		}
		size, device, err := filesystem(path, now)
		if err != nil {
			continue // It may be removed right now.
		}
		one := statsapi.VolumeStats{Name: volume.Name, FsStats: *size}
		switch {
		case volume.PersistentVolumeClaim != nil:
			one.PVCRef = &statsapi.PVCReference{Name: volume.PersistentVolumeClaim.ClaimName, Namespace: pod.Namespace}
		case volume.Ephemeral != nil:
			one.PVCRef = &statsapi.PVCReference{Name: ephemeral.VolumeClaimName(pod, volume), Namespace: pod.Namespace}
		case device == d.device:
			one.UsedBytes, one.InodesUsed = nil, nil
		}
		found = append(found, one)
	}
	return found
}

// own reports whether a path is below a folder of the agent's. It reads nothing elsewhere.
func (p *Provider) own(path string) bool {
	for _, dir := range []string{p.cfg.DataDir, p.cfg.LocalVolumesDir} {
		if dir != "" && strings.HasPrefix(filepath.Clean(path), filepath.Clean(dir)+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// ephemeralStorage returns the space on the node's disk that is known to be used by a pod: of its containers'
// layers and logs, and of volumes in memory that end with the pod.
func ephemeralStorage(pod *statsapi.PodStats, d *disks, now metav1.Time) *statsapi.FsStats {
	var bytes, inodes uint64
	add := func(one *statsapi.FsStats) {
		if one != nil && one.UsedBytes != nil {
			bytes += *one.UsedBytes
		}
		if one != nil && one.InodesUsed != nil {
			inodes += *one.InodesUsed
		}
	}
	for i := range pod.Containers {
		add(pod.Containers[i].Rootfs)
		add(pod.Containers[i].Logs)
	}
	for i := range pod.VolumeStats {
		if pod.VolumeStats[i].PVCRef == nil {
			add(&pod.VolumeStats[i].FsStats)
		}
	}
	return used(d.node, &bytes, &inodes, now)
}
