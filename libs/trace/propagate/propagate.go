// Package propagate carries over the bus what processes have to know of each other's traces.
package propagate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/trace"
)

// Tell tells the other processes that a traced write begins. What cannot be sent leaves a gap in
// the trace, and nothing else.
func Tell(ctx context.Context, conn *bus.Conn, note trace.Note) error {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding a note for tracing: %w", err)
	}
	if err := conn.Publish(ctx, bus.TraceSubject(), data); err != nil {
		return fmt.Errorf("telling what is traced: %w", err)
	}
	return nil
}

// Listen has a recorder learn what is told, until ctx ends; at once if nothing is traced here.
func Listen(ctx context.Context, conn *bus.Conn, recorder *trace.Recorder) error {
	if !recorder.Traced() {
		return nil
	}
	sub, err := conn.Subscribe(ctx, bus.TraceSubject(), func(m bus.Message) {
		var note trace.Note
		if json.Unmarshal(m.Data, &note) == nil {
			recorder.Learn(note)
		}
	})
	if err != nil {
		return fmt.Errorf("listening to what is traced: %w", err)
	}
	<-ctx.Done()
	sub.Unsubscribe()
	<-sub.Done()
	return nil
}
