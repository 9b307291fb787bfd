// Package localvolumes keeps the folders of local volumes on the node: it creates one when a pod first uses
// the volume, and removes it when the volume is deleted. Package localvolume tells what the agent and the
// provisioner agree on.
//
// All folders are directly in one directory, in which only the agent writes. What is in the folders is
// written by containers, and treated as hostile: the agent never follows a link there, never leaves the
// folder's file system, and holds a bounded number of open directories, however deep they are nested.
//
// A folder is removed only if the API says so for the volume of its name. A folder whose volume is not
// known is kept, and reported.
package localvolumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/localvolume"
)

const (
	// prefix begins the names of the provisioner's volumes. Other folders are left alone.
	prefix = "pvc-"
	// unfinished begins the name of a folder that is being created.
	unfinished = ".new-"
	// maxFolders bounds the volumes of a node, and with it the list in the node's status.
	maxFolders = 1000
)

// Config configures Folders.
type Config struct {
	// Dir holds the folders; an absolute path. When empty, the node has no local volumes.
	Dir string
	// NodeName is the name of the node, which is also its host name.
	NodeName string
	// Client reads PersistentVolumes.
	Client client.Interface
	// Report writes the node's status, with what List returns, and returns when it is written.
	Report func(ctx context.Context) error
	// InUse reports whether a pod on the node uses the volume of a name.
	InUse func(volume string) (bool, error)
	// Simulated reports that no container sees the volumes. Then files keep their owners, since not every
	// user may change them.
	Simulated bool
	// Events, unless nil, records Events about volumes.
	Events *events.Recorder
	// Logger receives the log.
	Logger *slog.Logger
	// Registerer receives the metrics; there are none when nil.
	Registerer prometheus.Registerer
}

// Folders are the folders of the node's volumes. Any goroutine may use it.
type Folders struct {
	cfg     Config
	volumes client.Resource[*corev1.PersistentVolume]
	metrics *metrics

	// creating is held while a folder is created.
	creating sync.Mutex
	mu       sync.Mutex
	// announced are volumes whose folder is about to be created.
	announced map[string]bool
	// asked is when the API was last asked about a folder; see sweep.
	asked map[string]answer
}

// New returns Folders; it touches no disk.
func New(cfg Config) *Folders {
	return &Folders{
		cfg: cfg, volumes: client.Of[*corev1.PersistentVolume](cfg.Client), metrics: newMetrics(cfg.Registerer),
		announced: map[string]bool{}, asked: map[string]answer{},
	}
}

// List returns what the node's status is to list: the volumes that have a folder, or are about to get one.
// An error means that nobody knows, and that the status must stay as it is.
func (f *Folders) List() ([]corev1.UniqueVolumeName, error) {
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	for name := range f.announced {
		names = append(names, name)
	}
	f.mu.Unlock()
	slices.Sort(names)
	var list []corev1.UniqueVolumeName
	for _, name := range slices.Compact(names) {
		list = append(list, localvolume.UniqueName(name))
	}
	return list, nil
}

// names returns the volumes that have a folder.
func (f *Folders) names() ([]string, error) {
	if f.cfg.Dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(f.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the folders of local volumes: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Provide returns the path of the folder of a local volume, and creates the folder of one that the
// provisioner made. It refuses a path that is not a folder directly in Config.Dir, also if a link hides
// that.
func (f *Folders) Provide(ctx context.Context, v *corev1.PersistentVolume) (string, error) {
	path := v.Spec.Local.Path
	if f.cfg.Dir == "" {
		return "", fmt.Errorf("path %q: this node has no folder for local volumes", path)
	}
	name, err := filepath.Rel(f.cfg.Dir, path)
	if err != nil || filepath.Join(f.cfg.Dir, name) != path || !isName(name) {
		return "", fmt.Errorf("path %q is not a folder directly in %s, where this node keeps local volumes", path, f.cfg.Dir)
	}
	err = checkFolder(f.cfg.Dir, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if !localvolume.Provisioned(v) || v.Name != name || !strings.HasPrefix(name, prefix) {
		return "", fmt.Errorf("path %q does not exist", path)
	}
	began := time.Now()
	err = f.create(ctx, v)
	f.metrics.took("volume_provide", time.Since(began), err)
	return path, err
}

// isName reports whether a relative path is one name.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.HasPrefix(name, unfinished) && filepath.Base(name) == name
}

// create creates the folder of a volume. The node's status lists the volume first: while it does, the
// provisioner keeps the volume's object, by which the folder is found again. The volume is then read once
// more, since it may have been deleted before it was listed.
func (f *Folders) create(ctx context.Context, v *corev1.PersistentVolume) error {
	f.creating.Lock()
	defer f.creating.Unlock()
	names, err := f.names()
	if err != nil {
		return err
	}
	if len(names) >= maxFolders {
		return fmt.Errorf("this node has %d local volumes, and may have at most %d", len(names), maxFolders)
	}
	f.announce(v.Name, true)
	defer f.announce(v.Name, false)
	if err := f.cfg.Report(ctx); err != nil {
		return fmt.Errorf("listing the volume in the node's status: %w", err)
	}
	now, err := f.volumes.Get(ctx, "", v.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("reading volume %s again: %w", v.Name, err)
	case now.UID != v.UID || now.DeletionTimestamp != nil:
		return fmt.Errorf("volume %s is being deleted", v.Name)
	}
	if err := makeFolder(f.cfg.Dir, v.Name); err != nil {
		return fmt.Errorf("creating the folder of volume %s: %w", v.Name, err)
	}
	return nil
}

func (f *Folders) announce(name string, announced bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if announced {
		f.announced[name] = true
	} else {
		delete(f.announced, name)
	}
}

// Own gives everything in the folder of a volume to a group that may read and write, as the kubelet does
// for a pod's fsGroup. With onMismatch it does nothing if the folder itself is as it should be.
func (f *Folders) Own(ctx context.Context, v *corev1.PersistentVolume, group int64, onMismatch bool) error {
	if f.cfg.Simulated {
		return nil
	}
	if err := ownTree(ctx, f.cfg.Dir, filepath.Base(v.Spec.Local.Path), int(group), onMismatch); err != nil {
		return fmt.Errorf("giving the volume to the pod's fsGroup: %w", err)
	}
	return nil
}
