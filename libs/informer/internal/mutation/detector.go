// Package mutation finds stored objects that a reader changed.
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

// Variable is the environment variable that, when true, makes every informer check whether callers
// changed objects of its store (client-go's name).
const Variable = "KUBE_CACHE_MUTATION_DETECTOR"

// period is how often objects are compared with their copies.
const period = time.Second

// retained is how many more times an object is checked after it has left the store: for two
// minutes, as in client-go.
const retained = 120

// Detector keeps a copy of each stored object and compares the two. It is for tests: it takes twice
// the memory, and it is slow.
type Detector struct {
	name string
	// found is called with each mutation; nil means panic.
	found func(error)

	mu     sync.Mutex
	pairs  map[string]pair
	former []pair // recently replaced or deleted: handlers may still hold it
}

type pair struct {
	key    string
	object scheme.Object
	copied any
	looks  int // checks since the object left the store
}

// New creates a detector for a store if it is wanted, by the argument or by the environment.
// Otherwise it returns nil, which detects nothing. found is called with each mutation; the detector
// panics when found is nil.
func New(wanted bool, name string, found func(error)) *Detector {
	if fromEnvironment, err := strconv.ParseBool(os.Getenv(Variable)); err == nil {
		wanted = wanted || fromEnvironment
	}
	if !wanted {
		return nil
	}
	return &Detector{name: name, found: found, pairs: map[string]pair{}}
}

// Stored records that obj is now in the store under key.
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

// Dropped records that the store has nothing under key any more.
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
			p.copied = p.object.DeepCopyObject() // Each mutation is reported only once.
			d.pairs[key] = p
		}
	}
}

// changed reports an object that is not as it was stored.
func (d *Detector) changed(p pair) bool {
	if equality.Semantic.DeepEqual(p.copied, p.object) {
		return false
	}
	err := fmt.Errorf("cache of %s: %s was changed by a reader (-stored +now):\n%s",
		d.name, p.key, diff.Diff(p.copied, p.object))
	if d.found == nil {
		panic(err)
	}
	d.found(err)
	return true
}
