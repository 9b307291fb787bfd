// Package trace records the hops of changes on their way through the plane: request, commit,
// publish, informer, queue, reconcile, bind, runtime, status. Every service keeps its latest hops
// in a bounded ring; `garboard trace` puts them in order.
package trace

import (
	"sync"
	"sync/atomic"
	"time"
)

// The steps of a change, in order.
const (
	Request   = "request"   // the apiserver answered a write
	Commit    = "commit"    // etcd committed it
	Publish   = "publish"   // the publisher sent its watch message
	Informer  = "informer"  // an informer applied it
	Queue     = "queue"     // a work queue handed its key to a worker
	Reconcile = "reconcile" // a controller's reconcile ended
	Bind      = "bind"      // the scheduler bound a pod
	Runtime   = "cri"       // the node agent made a call to the container runtime
	Status    = "status"    // the node agent wrote a pod's status
)

// Hop is one step of one change.
type Hop struct {
	// Time is when the step ended.
	Time time.Time `json:"time"`
	// Took is how long the step took; 0 if it has no length.
	Took time.Duration `json:"took,omitempty"`
	// Service is what took the step, for example "apiserver" or "deployment-controller".
	Service string `json:"service"`
	// Step is one of the constants of this package.
	Step string `json:"step"`
	// Resource, Namespace, Name and UID name the object; UID may be empty.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	// Revision is the etcd revision that the step is about; 0 if there is none.
	Revision int64 `json:"revision,omitempty"`
	// Detail adds a few words: a verb, a CRI call, a phase.
	Detail string `json:"detail,omitempty"`
}

// Recorder keeps the latest hops. A nil *Recorder records nothing, so that a service needs no
// special case. It is safe for concurrent use.
type Recorder struct {
	tracer   Tracer // nil if nothing is traced beyond this process
	announce atomic.Pointer[func(Note)]

	mu   sync.Mutex
	ring []Hop
	next int
	full bool
}

// NewRecorder returns a recorder of the latest size hops; size must be positive.
func NewRecorder(size int) *Recorder {
	return &Recorder{ring: make([]Hop, size)}
}

// Record adds a hop, replacing the oldest if the ring is full. A zero Time means now.
func (r *Recorder) Record(hop Hop) {
	if r == nil {
		return
	}
	if hop.Time.IsZero() {
		hop.Time = time.Now()
	}
	if r.tracer != nil {
		r.tracer.Hop(hop)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next] = hop
	r.next++
	if r.next == len(r.ring) {
		r.next, r.full = 0, true
	}
}

// Hops returns the recorded hops for which keep returns true, oldest first.
func (r *Recorder) Hops(keep func(Hop) bool) []Hop {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var hops []Hop
	if r.full {
		hops = appendKept(hops, r.ring[r.next:], keep)
	}
	return appendKept(hops, r.ring[:r.next], keep)
}

func appendKept(to, from []Hop, keep func(Hop) bool) []Hop {
	for _, hop := range from {
		if keep(hop) {
			to = append(to, hop)
		}
	}
	return to
}
