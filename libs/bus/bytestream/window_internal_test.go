package bytestream

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
)

// TestStreamKeepsItsWindow checks that a writer that sends more than its credit ends its stream,
// and does not fill the memory of a slow reader.
func TestStreamKeepsItsWindow(t *testing.T) {
	connect := startServer(t)
	for name, accepts := range map[string]bool{"after the acceptance": true, "before the acceptance": false} {
		t.Run(name, func(t *testing.T) {
			hostile := connect(time.Minute).Conn
			const parts = window/MaxPart + 1
			said := make(chan error, 1)
			if _, err := hostile.Subscribe(t.Context(), "svc", func(m bus.Message) {
				say := func(f frame) {
					said <- hostile.PublishRequest(t.Context(), m.Reply, hostile.InboxFor(m.Reply), f.encode())
				}
				if accepts {
					say(frame{kind: frameAccept})
				}
				for i := range uint64(parts) {
					say(frame{kind: frameData, number: i, body: bytes.Repeat([]byte("x"), MaxPart)})
				}
				if !accepts {
					say(frame{kind: frameAccept})
				}
				say(frame{kind: frameEnd, number: parts})
			}); err != nil {
				t.Fatal(err)
			}
			if err := hostile.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			heard := make(chan error, 1)
			go func() {
				var all error
				for range parts + 2 {
					all = errors.Join(all, <-said)
				}
				heard <- all
			}()
			r, err := connect(time.Minute).Open(t.Context(), "svc", nil)
			if said := <-heard; said != nil { // Send everything before anything is read.
				t.Fatal(said)
			}
			if err == nil {
				if accepts {
					select {
					case <-r.(*reader).sub.Done():
					case <-time.After(time.Minute):
						t.Error("the stream did not end by itself")
					}
				}
				var n int64
				n, err = io.Copy(io.Discard, r)
				if n > window {
					t.Errorf("%d bytes were buffered", n)
				}
				_ = r.Close()
			}
			if !errors.Is(err, ErrBroken) {
				t.Errorf("the stream ended with %v", err)
			}
		})
	}
}
