package workqueue

import (
	"context"
	"sync"
	"sync/atomic"
)

// DoWorkPieceFunc does the piece of work with an index.
type DoWorkPieceFunc func(piece int)

// Options are options of ParallelizeUntil.
type Options func(*options)

type options struct {
	chunkSize int
}

// WithChunkSize makes a worker take c pieces at a time, in order; less than 1 counts as 1.
func WithChunkSize(c int) func(*options) {
	return func(o *options) { o.chunkSize = c }
}

// ParallelizeUntil does every piece of work once, by at most workers goroutines, and returns
// when all have ended. When ctx (which may be nil) ends, no further piece is begun. A piece
// that panics ends the process.
func ParallelizeUntil(ctx context.Context, workers, pieces int, doWorkPiece DoWorkPieceFunc, opts ...Options) {
	if pieces <= 0 {
		return
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	chunk := max(o.chunkSize, 1)
	chunks := (pieces + chunk - 1) / chunk

	var next atomic.Int64
	var group sync.WaitGroup
	for range min(workers, chunks) {
		group.Go(func() {
			for {
				start := (int(next.Add(1)) - 1) * chunk
				if start >= pieces {
					return
				}
				for piece := start; piece < min(start+chunk, pieces); piece++ {
					if ctx != nil && ctx.Err() != nil {
						return
					}
					doWorkPiece(piece)
				}
			}
		})
	}
	group.Wait()
}
