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

// ParallelizeUntil does every piece of work once, with at most workers goroutines, and returns when
// all have ended. When ctx (which may be nil) ends, no further piece is started. A piece that
// panics ends the process. Without workers or pieces it does nothing.
func ParallelizeUntil(ctx context.Context, workers, pieces int, doWorkPiece DoWorkPieceFunc, opts ...Options) {
	if pieces <= 0 {
		return
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	chunk := min(max(o.chunkSize, 1), pieces)
	chunks := (pieces-1)/chunk + 1

	var next atomic.Int64
	var group sync.WaitGroup
	for range min(workers, chunks) {
		group.Go(func() {
			for {
				number := int(next.Add(1)) - 1
				if number >= chunks {
					return
				}
				start := number * chunk
				for piece := start; piece < pieces && piece-start < chunk; piece++ {
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
