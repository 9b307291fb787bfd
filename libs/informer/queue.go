package informer

import "github.com/garboard/garboard/libs/informer/internal/batch"

// batchSize is how many changes are made to the store under one lock. Twice as many may wait
// before the follower has to.
const batchSize = 1000

// statement is one call of the Sink, as it waits in the queue between the follower and the
// store, by which the network is read on while the store changes.
type statement struct {
	// whole says that objects are all there is; else changes led to revision.
	whole   bool
	objects []Object
	// hidden are keys of objects that are there but could not be transformed.
	hidden   []string
	changes  []Change
	revision int64
	// history is that of a whole view.
	history string
}

// newQueue makes a queue in which a statement is as large as its changes, and a whole view goes
// alone.
func newQueue() *batch.Queue[statement] { return batch.New[statement](batchSize) }
