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
	// ModeBlocking has a request wait until its event is written, but never for longer than
	// patience: then it goes on and the event is lost, counted and logged.
	ModeBlocking Mode = "blocking"
	// ModeBatch has no request wait. When too many events wait, new ones are lost, counted and
	// logged.
	ModeBatch Mode = "batch"
	// ModeStrict is ModeBlocking, and refuses requests whose arrival cannot be written down.
	ModeStrict Mode = "blocking-strict"
)

// Modes are all there are.
func Modes() []Mode { return []Mode{ModeBatch, ModeBlocking, ModeStrict} }

const (
	// waiting bounds the events that wait to be written, Kubernetes' number.
	waiting = 10000
	// patience bounds how long a request waits for the log.
	patience = 5 * time.Second
	// together bounds how many bytes of events are written at once, since one may come after
	// the other without end.
	together = 1 << 20
	// complainEvery is how often the log tells of the same trouble.
	complainEvery = time.Minute
)

var (
	errFull  = errors.New("audit buffer queue blocked")
	errEnded = errors.New("the audit log is closed")
	errSlow  = fmt.Errorf("the audit log took longer than %v", patience)
)

// entry is an event on its way; written gets the outcome and may be nil.
type entry struct {
	line    []byte
	written chan error
}

// sink writes events from one goroutine, as many at once as there are.
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

// write has a line written, and waits for that as mode says. An error was logged and counted.
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
		// It is still written if the log comes back; that it was late is told.
		s.complain(errSlow)
		return errSlow
	}
}

// lost counts events that are not written, and tells it.
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
	s.log.Error("The audit log has trouble; apiserver_audit_error_total counts the events that it lost", "err", err)
}

// run writes until ctx ends, and then what is left.
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
	// Who has begun to send may finish; nobody begins any more.
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

// flush writes an event, and with it those that wait.
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
