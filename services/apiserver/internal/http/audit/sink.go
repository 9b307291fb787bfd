package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Mode is how requests wait for their events to be written: kube-apiserver's --audit-log-mode.
type Mode string

const (
	// ModeBlocking makes a request wait until its event is written, but no longer than patience.
	// After that the request goes on, and the event is lost, counted and logged.
	ModeBlocking Mode = "blocking"
	// ModeBatch makes no request wait. When too many events are queued, new ones are lost, counted
	// and logged.
	ModeBatch Mode = "batch"
	// ModeStrict is ModeBlocking, and also refuses requests whose RequestReceived event cannot be
	// written.
	ModeStrict Mode = "blocking-strict"
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{ModeBatch, ModeBlocking, ModeStrict} }

const (
	// waiting bounds the queued events. It is Kubernetes' value.
	waiting = 10000
	// patience bounds how long a request waits for the audit log.
	patience = 5 * time.Second
	// together bounds the bytes of events in one write, since new events may keep arriving without
	// end.
	together = 1 << 20
	// complainEvery is the shortest interval between two log messages about failures.
	complainEvery = time.Minute
)

var (
	errFull  = errors.New("audit buffer queue blocked")
	errEnded = errors.New("the audit log is closed")
	errSlow  = fmt.Errorf("the audit log took longer than %v", patience)
)

// entry is a queued event. written receives the outcome and may be nil.
type entry struct {
	line    []byte
	written chan error
}

// sink writes events from one goroutine, as many in one write as are queued.
type sink struct {
	file       File
	queue      chan entry
	senders    atomic.Int64
	ended      atomic.Bool
	complained atomic.Int64 // Unix seconds
	metrics    *metrics
	log        *slog.Logger
}

func newSink(file File, metrics *metrics, log *slog.Logger) *sink {
	return &sink{file: file, queue: make(chan entry, waiting), metrics: metrics, log: log}
}

// write queues a line and waits for it to be written as mode demands. It logs and counts the errors
// it returns.
func (s *sink) write(line []byte, mode Mode) error {
	s.senders.Add(1)
	defer s.senders.Add(-1)
	if s.ended.Load() {
		return s.lost("buffered", 1, errEnded)
	}
	if mode == ModeBatch {
		select {
		case s.queue <- entry{line: line}:
			return nil
		default:
			return s.lost("buffered", 1, errFull)
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	e := entry{line: line, written: make(chan error, 1)}
	select {
	case s.queue <- e:
	case <-timer.C:
		return s.lost("buffered", 1, errFull)
	}
	select {
	case err := <-e.written:
		return err
	case <-timer.C:
		// The event is still written if the file recovers; only the delay is reported.
		s.complain(errSlow)
		return errSlow
	}
}

// lost counts and reports events that are not written.
func (s *sink) lost(plugin string, events int, err error) error {
	s.metrics.failed.WithLabelValues(plugin).Add(float64(events))
	s.complain(err)
	return err
}

func (s *sink) complain(err error) {
	now := time.Now().Unix()
	before := s.complained.Load()
	if now-before < int64(complainEvery/time.Second) || !s.complained.CompareAndSwap(before, now) {
		return
	}
	s.log.Error("the audit log has a problem; apiserver_audit_error_total counts the lost events", "err", err)
}

// run writes events until ctx ends, then the ones that still wait.
func (s *sink) run(ctx context.Context) (err error) {
	out, err := s.file.open(s.complain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for {
		select {
		case e := <-s.queue:
			s.flush(out, e)
			continue
		case <-ctx.Done():
		}
		break
	}
	// Senders that have begun may finish; new ones are turned away.
	s.ended.Store(true)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case e := <-s.queue:
			s.flush(out, e)
		case <-tick.C:
			if s.senders.Load() == 0 && len(s.queue) == 0 {
				return nil
			}
		}
	}
}

// flush writes an event together with the queued ones.
func (s *sink) flush(out *rotating, first entry) {
	batch, size := []entry{first}, len(first.line)
	for size < together {
		select {
		case e := <-s.queue:
			batch, size = append(batch, e), size+len(e.line)
			continue
		default:
		}
		break
	}
	lines := make([][]byte, len(batch))
	for i, e := range batch {
		lines[i] = e.line
	}
	err := out.write(lines)
	if err != nil {
		_ = s.lost("log", len(batch), err)
	}
	for _, e := range batch {
		if e.written != nil {
			e.written <- err
		}
	}
}
