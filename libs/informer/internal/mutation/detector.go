// Package mutation finds objects that were changed by one who only borrowed them.
package mutation

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/garboard/garboard/libs/scheme"
)

// Variable is the environment variable that, when true, makes every informer
// look for objects of its store that somebody changed (client-go's name).
const Variable = "KUBE_CACHE_MUTATION_DETECTOR"

// period is how often objects are compared with their copies.
const period = time.Second

// retained is how often an object is still looked at when it has left the store: two minutes,
// as in client-go.
const retained = 120

// Detector keeps a copy of each stored object and compares. It is for tests: it takes twice
// the memory, and all the time it needs.
type Detector struct {
	name string
	// found is told of a changed object; panic when nil.
	found func(error)

	mu     sync.Mutex
	pairs  map[string]pair
	former []pair // what was replaced or deleted lately: handlers may still hold it
}

type pair struct {
	key    string
	object scheme.Object
	copied any
	looks  int // since the object left the store
}

// New makes a detector for a store if it is wanted, here or by the environment; else nil, which
// detects nothing. found is told of a changed object; the detector panics when it is nil.
func New(wanted bool, name string, found func(error)) *Detector {
	if fromEnvironment, err := strconv.ParseBool(os.Getenv(Variable)); err == nil {
		wanted = wanted || fromEnvironment
	}
	if !wanted {
		return nil
	}
	return &Detector{name: name, found: found, pairs: map[string]pair{}}
}

// Stored says that obj is in the store under key now.
func (d *Detector) Stored(key string, obj scheme.Object) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, known := d.pairs[key]; known {
		d.former = append(d.former, old)
	}
	d.pairs[key] = pair{key: key, object: obj, copied: obj.DeepCopyObject()}
}

// Dropped says that the store has nothing under key any more.
func (d *Detector) Dropped(key string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, known := d.pairs[key]; known {
		d.former = append(d.former, old)
		delete(d.pairs, key)
	}
}

// Run compares until ctx ends, and then once more.
func (d *Detector) Run(ctx context.Context) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			d.look()
			return
		case <-ticker.C:
			d.look()
		}
	}
}

func (d *Detector) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := d.former[:0]
	for _, p := range d.former {
		if p.looks++; !d.changed(p) && p.looks < retained {
			kept = append(kept, p)
		}
	}
	clear(d.former[len(kept):])
	d.former = kept
	for key, p := range d.pairs {
		if d.changed(p) {
			p.copied = p.object.DeepCopyObject() // One theft is told once.
			d.pairs[key] = p
		}
	}
}

// changed reports an object that is not as it was stored.
func (d *Detector) changed(p pair) bool {
	if equality.Semantic.DeepEqual(p.copied, p.object) {
		return false
	}
	err := fmt.Errorf("cache of %s: %s was changed by one who only borrowed it (-stored +now):\n%s",
		d.name, p.key, diff.Diff(p.copied, p.object))
	if d.found == nil {
		panic(err)
	}
	d.found(err)
	return true
}
