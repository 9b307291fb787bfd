package publish

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
)

// journal is the log, if there is one. It is opened in the background, and again when it is lost.
// Nothing waits for it: P6.
type journal struct {
	open func(ctx context.Context) (Log, error)
	// subjects returns what the log keeps; nil if that never changes.
	subjects func() []string
	logger   *slog.Logger
	lost     chan struct{}
	first    chan struct{} // closed after the first attempt to open the log

	mu  sync.Mutex
	log Log
}

func newJournal(open func(ctx context.Context) (Log, error), subjects func() []string, logger *slog.Logger) *journal {
	j := &journal{open: open, subjects: subjects, logger: logger, lost: make(chan struct{}, 1), first: make(chan struct{})}
	if open == nil {
		close(j.first)
	}
	return j
}

// run keeps the log open until ctx ends. It opens the log again when that has to keep other subjects.
func (j *journal) run(ctx context.Context, table *scheme.Table) error {
	if j.open == nil {
		return nil
	}
	defer j.set(nil)
	for tries := 0; ; tries++ {
		kept, lost := j.kept(), false
		bounded, cancel := context.WithTimeout(ctx, openTimeout)
		log, err := j.open(bounded)
		cancel()
		if err == nil {
			j.set(log)
			j.forget()
		} else if ctx.Err() == nil {
			j.logger.WarnContext(ctx, "publishing without a log", "err", err)
		}
		if tries == 0 {
			close(j.first)
		}
		if err == nil {
			if lost = j.awaitLoss(ctx, table, kept); !lost {
				continue // The log that is open serves until the next one is.
			}
		}
		if !backoff.Sleep(ctx, reopenPause) {
			return nil
		}
		if lost {
			j.set(nil)
		}
	}
}

// kept returns the subjects that the log has to keep now; nil if that never changes.
func (j *journal) kept() []string {
	if j.subjects == nil {
		return nil
	}
	return j.subjects()
}

// awaitLoss waits until the log is lost, or ctx ends. It returns false if the log must be opened
// again for another reason: it has to keep other subjects.
func (j *journal) awaitLoss(ctx context.Context, table *scheme.Table, kept []string) bool {
	for {
		_, changed := table.Follow()
		if !slices.Equal(kept, j.kept()) {
			return false
		}
		select {
		case <-ctx.Done():
			return true
		case <-changed:
		case <-j.lost:
			j.logger.WarnContext(ctx, "the log of watch messages is lost; opening it again")
			return true
		}
	}
}

// set replaces the current log and closes it.
func (j *journal) set(log Log) {
	j.mu.Lock()
	old := j.log
	j.log = log
	j.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// forget drops a report of loss that the closing of the old log caused.
func (j *journal) forget() {
	select {
	case <-j.lost:
	default:
	}
}

func (j *journal) current() Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log
}

// publish sends a message through the log; errNoJournal if there is none.
func (j *journal) publish(subject string, data []byte, id string, acked func(error)) error {
	log := j.current()
	if log == nil {
		return errNoJournal
	}
	return log.PublishAsync(subject, data, id, func(err error) {
		// Not only ErrNoLog: if a deleted log's subject has subscribers, the missing
		// acknowledgement is the only sign of the loss.
		if err != nil {
			select {
			case j.lost <- struct{}{}:
			default:
			}
		}
		acked(err)
	})
}

// last reads the newest message at a subject; false if there is no readable one. It waits for the
// first attempt to open the log.
func (j *journal) last(ctx context.Context, subject string) ([]byte, bool) {
	select {
	case <-j.first:
	case <-ctx.Done():
		return nil, false
	}
	log := j.current()
	if log == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	message, err := log.Last(ctx, subject)
	if err != nil {
		if !errors.Is(err, bus.ErrNone) && ctx.Err() == nil {
			j.logger.WarnContext(ctx, "failed to read the position of the last publisher", "err", err)
		}
		return nil, false
	}
	return message.Data, true
}
