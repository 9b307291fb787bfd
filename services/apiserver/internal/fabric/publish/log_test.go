package publish_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
)

// logOn returns a function that opens the log on a connection. A publisher bounds its wait for the
// log, since it can do without one; this log is waited for until ctx ends, however slow the machine
// is.
func logOn(ctx context.Context, conn *bus.Conn) func(context.Context) (publish.Log, error) {
	open := publish.JetStream(conn, "garboard-watch", func() []string { return []string{subject.AllWatch()} }, time.Hour, 64<<20, 1)
	return func(context.Context) (publish.Log, error) {
		log, err := patiently(ctx, open)
		if err != nil {
			return nil, err
		}
		return patientLog{log, ctx}, nil
	}
}

// patientLog is a log whose reads wait until ctx ends.
type patientLog struct {
	publish.Log
	ctx context.Context
}

func (l patientLog) Last(_ context.Context, subject string) (bus.Message, error) {
	return patiently(l.ctx, func(ctx context.Context) (bus.Message, error) { return l.Log.Last(ctx, subject) })
}

// patiently repeats a request that gets no answer in time: a server that was stopped never answers
// earlier ones.
func patiently[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for {
		bounded, cancel := context.WithTimeout(ctx, deadline/6)
		answer, err := ask(bounded)
		late := bounded.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return answer, err
		}
	}
}

// gate makes logs fail while it is shut.
type gate struct {
	mu   sync.Mutex
	shut bool
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
}

// gatedLog is a log behind a gate. It may be opened more than once.
type gatedLog struct {
	publish.Log
	gate *gate
}

func (l gatedLog) PublishAsync(subject string, data []byte, id string, acked func(error)) error {
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	if l.gate.shut {
		return errors.New("shut")
	}
	return l.Log.PublishAsync(subject, data, id, acked)
}
