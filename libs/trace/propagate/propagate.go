// Package propagate shares notes about traced writes between processes over the bus.
package propagate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/trace"
)

// Publish announces to the other processes that a traced write begins. A failure leaves a gap in the
// trace and has no other effect.
func Publish(ctx context.Context, conn *bus.Conn, note trace.Note) error {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding a note for tracing: %w", err)
	}
	if err := conn.Publish(ctx, subject.Trace(), data); err != nil {
		return fmt.Errorf("publishing a note for tracing: %w", err)
	}
	return nil
}

// Listen passes received notes to a recorder until ctx ends. It returns at once if nothing is
// traced here.
func Listen(ctx context.Context, conn *bus.Conn, recorder *trace.Recorder) error {
	if !recorder.Traced() {
		return nil
	}
	sub, err := conn.Subscribe(ctx, subject.Trace(), func(m bus.Message) {
		var note trace.Note
		if json.Unmarshal(m.Data, &note) == nil {
			recorder.Learn(note)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribing to notes for tracing: %w", err)
	}
	<-ctx.Done()
	sub.Unsubscribe()
	<-sub.Done()
	return nil
}
