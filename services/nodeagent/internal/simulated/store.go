package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is one sandbox.
type sandbox struct {
	ID        string
	Config    message[*cri.PodSandboxConfig]
	Ready     bool
	CreatedAt time.Time
	// IP is invalid for pods on the host's network and after the stop.
	IP netip.Addr
}

// container is one container.
type container struct {
	ID, SandboxID                    string
	Config                           message[*cri.ContainerConfig]
	ImageID, ImageRef                string
	State                            cri.ContainerState
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason, Message                  string
	// LogPath is absolute; empty when no log is wanted.
	LogPath string
	// ExitAt is when it ends by itself, with WillExit; never when zero.
	ExitAt   time.Time
	WillExit int32

	// starting: StartContainer waits for the start delay. Not kept on disk: the start is lost
	// with the process, as its caller's answer is.
	starting bool
}

// image is one image that was pulled.
type image struct {
	Name string // full, with tag or digest
	ID   string
	Ref  string // by digest
	Size uint64
}

// message is a protobuf message that is kept as JSON.
type message[M proto.Message] struct{ M M }

func (m message[M]) MarshalJSON() ([]byte, error) { return protojson.Marshal(m.M) }

func (m *message[M]) UnmarshalJSON(data []byte) error {
	m.M = m.M.ProtoReflect().New().Interface().(M)
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m.M)
}

// store keeps each thing in a file of its own. Files are replaced as a whole; they survive the
// death of the process, not that of the machine, as running containers do.
type store struct{ dir string }

// The folders of the store.
const (
	sandboxFolder   = "sandboxes"
	containerFolder = "containers"
	imageFolder     = "images"
)

func (s store) write(folder, id string, value any) error {
	data, err := json.MarshalIndent(value, "", "\t")
	if err != nil {
		return fmt.Errorf("encoding %s/%s: %w", folder, id, err)
	}
	path := s.path(folder, id)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("keeping the state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("keeping the state: %w", err)
	}
	return nil
}

func (s store) remove(folder, id string) error {
	if err := os.Remove(s.path(folder, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing from the state: %w", err)
	}
	return nil
}

func (s store) path(folder, id string) string { return filepath.Join(s.dir, folder, id+".json") }

// read reads everything in a folder. A file that cannot be read is an error that names it.
func read[T any](s store, folder string, each func(*T)) error {
	dir := filepath.Join(s.dir, folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state's folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !strings.HasSuffix(path, ".json") {
			continue // a replacement that was not finished
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the state: %w", err)
		}
		value := new(T)
		if err := json.Unmarshal(data, value); err != nil {
			return fmt.Errorf("the state in %s is damaged, remove it to go on without: %w", path, err)
		}
		each(value)
	}
	return nil
}

// load reads the store into memory. Containers whose sandbox is not there, because its file was
// removed, are dropped.
func (r *Runtime) load() error {
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	err := errors.Join(
		read(r.store, sandboxFolder, func(s *sandbox) {
			r.sandboxes[s.ID] = s
			if s.IP.IsValid() {
				r.addresses.taken[s.IP] = true
			}
		}),
		read(r.store, containerFolder, func(c *container) { r.containers[c.ID] = c }),
		read(r.store, imageFolder, func(i *image) { r.images[i.Name] = i }),
	)
	if err != nil {
		return err
	}
	for id, c := range r.containers {
		if r.sandboxes[c.SandboxID] == nil {
			delete(r.containers, id)
			if err := r.store.remove(containerFolder, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// addresses hands out the addresses of a range, going round it, so that one that was given back
// is not used again at once.
type addresses struct {
	prefix netip.Prefix
	taken  map[netip.Addr]bool
	last   netip.Addr
}

var errNoAddress = errors.New("no IP addresses available in range")

func (a *addresses) take() (netip.Addr, error) {
	// The first address is the network's name, the second the bridge's.
	first := a.prefix.Addr().Next().Next()
	candidate := a.last
	for range len(a.taken) + 2 {
		candidate = candidate.Next()
		// The last address of an IPv4 range is for broadcasts.
		if !candidate.IsValid() || !a.prefix.Contains(candidate.Next()) {
			candidate = first
		}
		if !a.taken[candidate] {
			a.taken[candidate], a.last = true, candidate
			return candidate, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w %s", errNoAddress, a.prefix)
}

func (a *addresses) give(address netip.Addr) { delete(a.taken, address) }
