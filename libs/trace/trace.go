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

// blockLength is the number of hops in each block of a recorder's ring.
const blockLength = 1024

// Recorder keeps the latest hops. A nil *Recorder records nothing, so that a service needs no
// special case. It is safe for concurrent use.
type Recorder struct {
	tracer   Tracer // nil if nothing is traced beyond this process
	announce atomic.Pointer[func(Note)]

	mu sync.Mutex
	// blocks are the ring, allocated as it fills for the first time. All but the last have
	// blockLength hops.
	blocks [][]Hop
	size   int
	next   int
	full   bool
}

// NewRecorder returns a recorder of the latest size hops; size must be positive.
func NewRecorder(size int) *Recorder {
	return &Recorder{blocks: make([][]Hop, (size+blockLength-1)/blockLength), size: size}
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
	block, at := r.next/blockLength, r.next%blockLength
	if r.blocks[block] == nil {
		r.blocks[block] = make([]Hop, min(blockLength, r.size-block*blockLength))
	}
	r.blocks[block][at] = hop
	r.next++
	if r.next == r.size {
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
		hops = r.appendKept(hops, r.next, r.size, keep)
	}
	return r.appendKept(hops, 0, r.next, keep)
}

// appendKept appends those hops at the positions from, from+1, ... before end that keep selects.
func (r *Recorder) appendKept(to []Hop, from, end int, keep func(Hop) bool) []Hop {
	for from < end {
		block, at := r.blocks[from/blockLength], from%blockLength
		block = block[at:min(len(block), at+end-from)]
		for _, hop := range block {
			if keep(hop) {
				to = append(to, hop)
			}
		}
		from += len(block)
	}
	return to
}
