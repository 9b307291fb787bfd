package informer

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
)

// DetectMutationsVariable is the environment variable that, when true, makes every informer
// look for objects of its store that somebody changed (client-go's name).
const DetectMutationsVariable = "KUBE_CACHE_MUTATION_DETECTOR"

// detectPeriod is how often objects are compared with their copies.
const detectPeriod = time.Second

// detector keeps a copy of each stored object and compares. It is for tests: it takes twice
// the memory, and all the time it needs.
type detector struct {
	name string
	// found is told of a changed object; panic when nil.
	found func(error)

	mu     sync.Mutex
	pairs  map[string]pair
	former []pair // what was replaced since the last look: handlers may still hold it
}

type pair struct {
	object Object
	copied any
}

// newDetector makes a detector if the configuration or the environment wants one; else nil,
// which detects nothing.
func newDetector(cfg Config, name string) *detector {
	wanted := cfg.DetectMutations
	if fromEnvironment, err := strconv.ParseBool(os.Getenv(DetectMutationsVariable)); err == nil {
		wanted = wanted || fromEnvironment
	}
	if !wanted {
		return nil
	}
	return &detector{name: name, found: cfg.OnMutation, pairs: map[string]pair{}}
}

// stored says that obj is in the store under key now.
func (d *detector) stored(key string, obj Object) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, known := d.pairs[key]; known {
		d.former = append(d.former, old)
	}
	d.pairs[key] = pair{object: obj, copied: obj.DeepCopyObject()}
}

// dropped says that the store has nothing under key any more.
func (d *detector) dropped(key string) {
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

// run compares until ctx ends, and then once more.
func (d *detector) run(ctx context.Context) {
	ticker := time.NewTicker(detectPeriod)
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

func (d *detector) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.former {
		d.compare(p)
	}
	d.former = nil
	for _, p := range d.pairs {
		d.compare(p)
	}
}

func (d *detector) compare(p pair) {
	if equality.Semantic.DeepEqual(p.copied, p.object) {
		return
	}
	err := fmt.Errorf("cache of %s: %s was changed by one who only borrowed it (-stored +now):\n%s",
		d.name, Key(p.object), cmp.Diff(p.copied, any(p.object)))
	if d.found == nil {
		panic(err)
	}
	d.found(err)
}
