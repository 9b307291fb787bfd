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

// sandbox is the state of one sandbox.
type sandbox struct {
	ID        string
	Config    message[*cri.PodSandboxConfig]
	Ready     bool
	CreatedAt time.Time
	// IP is invalid for pods on the host's network and after the sandbox was stopped.
	IP netip.Addr
}

// container is the state of one container.
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
	// ExitAt is when the container ends by itself, with code WillExit; never when zero.
	ExitAt   time.Time
	WillExit int32

	// starting: StartContainer is waiting for the start delay. It is not stored on disk: if the
	// process dies, the start is lost, as is the response to its caller.
	starting bool
}

// image is one pulled image.
type image struct {
	Name string // full, with tag or digest
	ID   string
	Ref  string // by digest
	Size uint64
}

// message is a protobuf message stored as JSON.
type message[M proto.Message] struct{ M M }

func (m message[M]) MarshalJSON() ([]byte, error) { return protojson.Marshal(m.M) }

func (m *message[M]) UnmarshalJSON(data []byte) error {
	m.M = m.M.ProtoReflect().New().Interface().(M)
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m.M)
}

// store keeps each object in its own file and replaces files as a whole. Like running containers,
// they survive a crash of the process, but not of the machine.
type store struct{ dir string }

// The directories of the store.
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
		return fmt.Errorf("writing the state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the state: %w", err)
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

// read reads every object in a directory. The error of an unreadable file names the file.
func read[T any](s store, folder string, each func(*T)) error {
	dir := filepath.Join(s.dir, folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the state's directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !strings.HasSuffix(path, ".json") {
			continue // an unfinished replacement
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the state: %w", err)
		}
		value := new(T)
		if err := json.Unmarshal(data, value); err != nil {
			return fmt.Errorf("the state in %s is damaged, remove it to continue without it: %w", path, err)
		}
		each(value)
	}
	return nil
}

// load reads the store into memory. It drops containers whose sandbox is missing because its file
// was removed.
func (r *Runtime) load() error {
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("creating the directory: %w", err)
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

// addresses allocates the addresses of a range in a cycle, so that a released address is not reused
// at once.
type addresses struct {
	prefix netip.Prefix
	taken  map[netip.Addr]bool
	last   netip.Addr
}

var errNoAddress = errors.New("no IP addresses available in range")

func (a *addresses) take() (netip.Addr, error) {
	// The first address is the network's, the second the bridge's.
	first := a.prefix.Addr().Next().Next()
	candidate := a.last
	for range len(a.taken) + 2 {
		candidate = candidate.Next()
		// The last address of an IPv4 range is the broadcast address.
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
