package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// result is what a spec did, as a line of the results file.
type result struct {
	// Plane names the plane that was judged.
	Plane string `json:"plane"`
	Spec  string `json:"spec"`
	State string `json:"state"`
	// Seconds is the time that the spec took.
	Seconds float64 `json:"seconds"`
	// Why has the lines that say why the spec did not pass.
	Why []string `json:"why,omitempty"`
	// Log is the file with all output of a spec that did not pass.
	Log string `json:"log,omitempty"`
}

// results is the file of all results, of which the last one of a spec and plane counts. Its methods
// are safe for concurrent use.
type results struct {
	plane string
	file  *os.File

	mu   sync.Mutex
	last map[string]result // of this plane, by name of the spec
}

// openResults reads the results of a plane from the file, which it creates if needed. It locks the
// file until close.
func openResults(path, plane string) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder for the results: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the results: %w", err)
	}
	// Two runs would overwrite each other's output of specs.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s, which another run may use; choose another folder with -dir: %w", path, err), file.Close())
	}
	r := &results{plane: plane, file: file, last: map[string]result{}}
	if err := r.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the results in %s: %w", path, err), file.Close())
	}
	return r, nil
}

// load reads the file. It cuts off a last line that a killed run did not finish, since the next one
// would be appended to it.
func (r *results) load() error {
	lines := bufio.NewReader(r.file)
	for offset := int64(0); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r.file.Truncate(offset)
		}
		if err != nil {
			return err
		}
		var found result
		if err := json.Unmarshal(line, &found); err != nil {
			return fmt.Errorf("the line at byte %d: %w", offset, err)
		}
		offset += int64(len(line))
		if found.Plane == r.plane {
			r.last[found.Spec] = found
		}
	}
}

// add appends a result.
func (r *results) add(found result) error {
	found.Plane = r.plane
	line, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("encoding a result: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("saving a result: %w", err)
	}
	r.last[found.Spec] = found
	return nil
}

// of returns the last result of a spec.
func (r *results) of(s spec) (result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.last[s.name]
	return found, ok
}

// open returns the specs that have no result; all if fresh, and with failed also those that did not
// pass.
func (r *results) open(chosen []spec, fresh, failed bool) []spec {
	var todo []spec
	for _, s := range chosen {
		found, ok := r.of(s)
		if !ok || fresh || failed && found.State != statePassed {
			todo = append(todo, s)
		}
	}
	return todo
}

func (r *results) close() error { return r.file.Close() }
