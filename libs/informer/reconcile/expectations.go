package reconcile

import (
	"sync"
	"time"
)

// expectationTimeout is how long a controller waits to see its own writes in its cache before it
// acts again anyway (Kubernetes, pkg/controller.ExpectationsTimeout).
const expectationTimeout = 5 * time.Minute

// Expectations keep a controller from acting on a cache that does not show its last writes yet.
// Before the controller creates or deletes, it records what it expects; its event handlers record
// what they see; it acts on a key only when Satisfied (Kubernetes,
// pkg/controller.UIDTrackingControllerExpectations). Deletions are counted once per UID. The zero
// value is ready to use, from any goroutine.
//
// A controller that writes through a Recording client needs them only if an apiserver may answer a
// deletion without a revision, as apiservers other than Garboard's may: Recording cannot wait for
// such a deletion.
type Expectations struct {
	mu   sync.Mutex
	keys map[string]*expectation
}

type expectation struct {
	creations int
	deletions map[string]struct{}
	since     time.Time
}

// ExpectCreations records that n objects are about to be created for key. It replaces all earlier
// expectations.
func (e *Expectations) ExpectCreations(key string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.fresh(key)
	x.creations, x.deletions = n, nil
}

// RaiseCreations records that n more objects are about to be created for key. It does nothing if
// nothing was ever expected.
func (e *Expectations) RaiseCreations(key string, n int) { e.lower(key, -n) }

// LowerCreations records that n of the expected objects were seen, or will not be created.
func (e *Expectations) LowerCreations(key string, n int) { e.lower(key, n) }

func (e *Expectations) lower(key string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.keys[key]; x != nil {
		x.creations -= n
	}
}

// ExpectDeletions records that the objects with these UIDs (or other unique names) are about to be
// deleted for key. It replaces all earlier expectations.
func (e *Expectations) ExpectDeletions(key string, uids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.fresh(key)
	x.creations, x.deletions = 0, make(map[string]struct{}, len(uids))
	for _, uid := range uids {
		x.deletions[uid] = struct{}{}
	}
}

// fresh returns key's expectation with its time set to now. The caller holds mu.
func (e *Expectations) fresh(key string) *expectation {
	if e.keys == nil {
		e.keys = map[string]*expectation{}
	}
	x := e.keys[key]
	if x == nil {
		x = &expectation{}
		e.keys[key] = x
	}
	x.since = time.Now()
	return x
}

// CreationObserved records that one creation for key was seen, or that it failed.
func (e *Expectations) CreationObserved(key string) { e.lower(key, 1) }

// DeletionObserved records that the deletion of uid was seen, or that it failed. An unexpected UID
// is ignored.
func (e *Expectations) DeletionObserved(key, uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.keys[key]; x != nil {
		delete(x.deletions, uid)
	}
}

// Satisfied reports whether everything expected for key was seen, or nothing is expected, or the
// wait has been longer than five minutes.
func (e *Expectations) Satisfied(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.keys[key]
	return x == nil || (x.creations <= 0 && len(x.deletions) == 0) || time.Since(x.since) > expectationTimeout
}

// Delete forgets key, which no longer exists.
func (e *Expectations) Delete(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.keys, key)
}
