package volumes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client"
)

// References reads the objects from which volumes are built. Errors are the API's.
type References interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	TrustBundle(ctx context.Context, name string) (*certificatesv1.ClusterTrustBundle, error)
	// TrustBundles reads those of a signer that have the labels.
	TrustBundles(ctx context.Context, signer string, has labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error)
}

// Claims reads the claims of pods and their volumes. Errors are the API's.
type Claims interface {
	Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error)
	PersistentVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error)
}

// Folders keeps the folders of local volumes.
type Folders interface {
	// Provide returns the path of a volume's folder, and creates the folder if need be.
	Provide(ctx context.Context, v *corev1.PersistentVolume) (string, error)
	// Own gives everything in the folder to a group; with onMismatch only if the folder itself is not as
	// it should be.
	Own(ctx context.Context, v *corev1.PersistentVolume, group int64, onMismatch bool) error
}

// Config configures Volumes.
type Config struct {
	// Dir holds one directory per pod, named by its UID; an absolute path.
	Dir string
	// References reads the sources of volumes.
	References References
	// Claims reads the claims of pods, and Folders has the local volumes. Without them, volumes of claims
	// cannot be created.
	Claims  Claims
	Folders Folders
	// NodeLabels returns the labels of the node.
	NodeLabels func() map[string]string
	// Client requests service account tokens.
	Client client.Interface
	// Allocatable returns the node's allocatable resources, for resourceFieldRef.
	Allocatable func() corev1.ResourceList
	// Simulated reports that no container sees the volumes. Then nothing is mounted, since not
	// every user may mount.
	Simulated bool
	// Logger receives the log.
	Logger *slog.Logger
}

// Volumes creates and removes the volumes of pods. Any goroutine may use it, but only one call per
// pod may run at a time.
type Volumes struct {
	cfg    Config
	tokens *tokens
	onDisk sync.Once

	mu sync.Mutex
	// written holds the versions that this agent wrote, by the volume's directory.
	written map[string]version
	// paths holds what Setup returned last, by the pod's UID.
	paths map[string]map[string]string
}

// New returns a Volumes; it touches no disk.
func New(cfg Config) *Volumes {
	return &Volumes{cfg: cfg, tokens: newTokens(cfg.Client, cfg.Logger), written: map[string]version{}, paths: map[string]map[string]string{}}
}

// Error reports a volume that could not be created.
type Error struct {
	// Volume is the name of the volume in the pod.
	Volume string
	// Err is the cause.
	Err error
	// text, unless empty, is that of the Event.
	text string
}

// Error returns the text of the kubelet's FailedMount Event.
func (e *Error) Error() string {
	if e.text != "" {
		return e.text
	}
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// PodDir returns the directory of all files of a pod.
func (v *Volumes) PodDir(uid string) string { return filepath.Join(v.cfg.Dir, uid) }

// Setup creates the volumes of pod and brings their files up to date. It returns the host path of
// each volume by name, and one *Error for each volume that failed.
func (v *Volumes) Setup(ctx context.Context, pod *corev1.Pod) (map[string]string, []error) {
	paths := make(map[string]string, len(pod.Spec.Volumes))
	var errs []error
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		path, err := v.setup(ctx, pod, volume)
		if err != nil {
			told := (*Error)(nil)
			if !errors.As(err, &told) {
				told = &Error{Volume: volume.Name, Err: err}
			}
			errs = append(errs, told)
			continue
		}
		paths[volume.Name] = path
	}
	v.mu.Lock()
	v.paths[string(pod.UID)] = maps.Clone(paths)
	v.mu.Unlock()
	return paths, errs
}

// Paths returns the host path of each volume of a pod by name, as of its last Setup; nil before it. Do not
// modify the map.
func (v *Volumes) Paths(uid string) map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.paths[uid]
}

func (v *Volumes) setup(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (string, error) {
	switch {
	case volume.HostPath != nil:
		return volume.HostPath.Path, checkHostPath(volume.HostPath)
	case volume.EmptyDir != nil:
		dir := v.dir(pod, "kubernetes.io~empty-dir", volume.Name)
		return dir, v.setupEmptyDir(dir, volume.EmptyDir, fsGroup(pod))
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		files, err := v.configMapFiles(ctx, pod, source.Name, source.Items, mode(source.DefaultMode), isTrue(source.Optional))
		return v.write(pod, "kubernetes.io~configmap", volume.Name, onDisk, files, err)
	case volume.Secret != nil:
		source := volume.Secret
		files, err := v.secretFiles(ctx, pod, source.SecretName, source.Items, mode(source.DefaultMode), isTrue(source.Optional))
		return v.write(pod, "kubernetes.io~secret", volume.Name, inMemory, files, err)
	case volume.DownwardAPI != nil:
		files, err := v.downwardFiles(pod, volume.DownwardAPI.Items, mode(volume.DownwardAPI.DefaultMode))
		return v.write(pod, "kubernetes.io~downward-api", volume.Name, inMemory, files, err)
	case volume.Projected != nil:
		files, err := v.projectedFiles(ctx, pod, volume.Projected)
		return v.write(pod, "kubernetes.io~projected", volume.Name, inMemory, files, err)
	case volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil:
		return v.setupClaim(ctx, pod, volume)
	}
	return "", errors.New("this kind of volume is not supported by this node agent")
}

func (v *Volumes) dir(pod *corev1.Pod, plugin, name string) string {
	return filepath.Join(v.PodDir(string(pod.UID)), "volumes", plugin, name)
}

// medium is where the files of a volume are stored.
type medium bool

const (
	onDisk   medium = false
	inMemory medium = true
)

func (v *Volumes) write(pod *corev1.Pod, plugin, name string, on medium, files map[string]file, err error) (string, error) {
	if err != nil {
		return "", err
	}
	dir := v.dir(pod, plugin, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the volume's directory: %w", err)
	}
	v.mu.Lock()
	last := v.written[dir]
	v.mu.Unlock()
	if on == inMemory {
		fresh, err := v.memory(dir)
		if err != nil {
			return "", err
		}
		if fresh {
			last = version{}
		}
	}
	next, err := writeFiles(dir, files, fsGroup(pod), last)
	v.mu.Lock()
	v.written[dir] = next
	v.mu.Unlock()
	return dir, err
}

// Reasons why files are on disk that should be in memory.
var (
	errSimulated = errors.New("the simulated runtime exposes them to no container")
	errBefore    = errors.New("an agent that could not mount memory wrote them, and containers may use them")
)

// memory mounts memory at dir where this agent can, and reports whether it did so just now.
func (v *Volumes) memory(dir string) (bool, error) {
	if v.cfg.Simulated {
		v.sayOnDisk(errSimulated)
		return false, nil
	}
	mounted, err := isMountPoint(dir)
	if mounted || err != nil {
		return false, err
	}
	empty, err := isEmpty(dir)
	if err != nil {
		return false, fmt.Errorf("reading the volume's directory: %w", err)
	}
	if !empty {
		// A container that has the directory mounted would not see a mount over it.
		v.sayOnDisk(errBefore)
		return false, nil
	}
	fresh, err := mountMemory(dir, 0, 0o755)
	if errors.Is(err, fs.ErrPermission) {
		v.sayOnDisk(err)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mounting memory: %w", err)
	}
	return fresh, nil
}

func isEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// sayOnDisk logs, once, why files are on the node's disk.
func (v *Volumes) sayOnDisk(why error) {
	v.onDisk.Do(func() {
		level := slog.LevelWarn
		if v.cfg.Simulated {
			level = slog.LevelInfo
		}
		v.cfg.Logger.Log(context.Background(), level, "secrets, tokens and other memory-backed volumes are on the node's disk",
			"dir", v.cfg.Dir, "err", why)
	})
}

// ReadOnly reports whether containers see a volume read-only whatever their mounts say. Only the
// agent writes volumes built from the API, and a pod may use its claim read-only.
func ReadOnly(volume *corev1.Volume) bool {
	if volume.PersistentVolumeClaim != nil {
		return volume.PersistentVolumeClaim.ReadOnly
	}
	return volume.ConfigMap != nil || volume.Secret != nil || volume.DownwardAPI != nil || volume.Projected != nil
}

// Remove deletes everything of a pod from the node: it unmounts memory volumes and deletes the
// pod's directory. A pod without files is not an error.
func (v *Volumes) Remove(uid string) error {
	if !isName(uid) {
		return fmt.Errorf("removing the volumes of a pod: %q is not a UID", uid)
	}
	v.tokens.forget(uid)
	dir := v.PodDir(uid)
	v.mu.Lock()
	maps.DeleteFunc(v.written, func(volume string, _ version) bool {
		return strings.HasPrefix(volume, dir+string(filepath.Separator))
	})
	delete(v.paths, uid)
	v.mu.Unlock()
	// Nothing is deleted while a subPath is mounted: it may be a directory of the host.
	if err := v.ReleaseSubPaths(uid, func(string) bool { return false }); err != nil {
		return fmt.Errorf("removing the volumes of pod %s: %w", uid, err)
	}
	if err := unmountBelow(dir); err != nil {
		return fmt.Errorf("removing the volumes of pod %s: %w", uid, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the volumes of pod %s: %w", uid, err)
	}
	return nil
}

// Pods returns the UIDs of the pods that have files on the node.
func (v *Volumes) Pods() ([]string, error) {
	entries, err := os.ReadDir(v.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the directories of pods: %w", err)
	}
	uids := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.IsDir() {
			uids = append(uids, entry.Name())
		}
	}
	return uids, nil
}

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

func mode(m *int32) os.FileMode {
	if m == nil {
		return 0o644
	}
	return os.FileMode(*m) & fs.ModePerm
}

func isTrue(b *bool) bool { return b != nil && *b }
