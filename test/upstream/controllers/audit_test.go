package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// auditLog reads the apiserver's audit log while it is written.
type auditLog struct {
	path string

	mu     sync.Mutex
	offset int64
	last   map[string]time.Time      // of a namespace, or of a script's objects in none: when something was last written
	writes map[string]map[string]int // of the controllers, by the same names and then by resource and verb
	keys   map[string]map[string]int // the same by the key for which a controller wrote
}

func newAuditLog(path string) *auditLog {
	return &auditLog{path: path, last: map[string]time.Time{}, writes: map[string]map[string]int{}, keys: map[string]map[string]int{}}
}

// read takes up what has been logged since the last call.
func (a *auditLog) read() error {
	file, err := os.Open(a.path)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	a.offset += int64(len(data))
	for line := range bytes.Lines(data) {
		if err := a.take(line); err != nil {
			return err
		}
	}
	return nil
}

func (a *auditLog) take(line []byte) error {
	var event struct {
		Verb      string
		User      struct{ Username string }
		ObjectRef struct{ Resource, Subresource, Namespace, Name string }

		ResponseStatus struct{ Code int }
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	ref := event.ObjectRef
	home := ref.Namespace
	if home == "" {
		home = homeOf(ref.Name)
	}
	a.last[home] = time.Now()
	if event.User.Username != user {
		return nil
	}
	if a.writes[home] == nil {
		a.writes[home], a.keys[home] = map[string]int{}, map[string]int{}
	}
	what := ref.Resource
	if ref.Subresource != "" {
		what += "/" + ref.Subresource
	}
	// A patch and an update cost the same.
	verb := event.Verb
	if verb == "patch" {
		verb = "update"
	}
	a.writes[home][what+" "+verb]++
	if event.ResponseStatus.Code < http.StatusBadRequest { // Otherwise nothing is written.
		a.keys[home][keyOf(what, ref.Name)]++
	}
	return nil
}

// keyOf returns the key for which a controller writes an object: of what workloads create, the workload's.
func keyOf(what, name string) string {
	owner := name
	if end := strings.LastIndexByte(name, '-'); end > 0 {
		owner = name[:end]
	}
	switch what {
	case "pods":
		return "owner of pods " + owner
	case "replicasets":
		return "deployments " + owner
	case "replicasets/status", "jobs/status":
		return "owner of pods " + name
	}
	resource, _, _ := strings.Cut(what, "/")
	return resource + " " + name
}

// quietSince returns when something was last written about a script's objects.
func (a *auditLog) quietSince(home string) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.read()
	return a.last[home], err
}

// counts returns how often the controllers have written, by resource and verb.
func (a *auditLog) counts(home string) map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.writes[home])
}

// byKey returns how often the controllers have written successfully, by the key for which they did.
func (a *auditLog) byKey(home string) map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.keys[home])
}

// homeOf returns the script to which an object without a namespace belongs. Its name begins with the script's.
func homeOf(name string) string {
	home, _, _ := strings.Cut(name, ".")
	return home
}
