package bytestream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// startServer starts NATS. The returned function connects, with streams whose ends may be silent for
// dead.
func startServer(t *testing.T) func(dead time.Duration) Transport {
	t.Helper()
	server := bustest.NewServer(t)
	return func(dead time.Duration) Transport {
		return Transport{Conn: server.Connect(), timing: timing{beat: 5 * time.Millisecond, dead: dead}}
	}
}

// TestWriterNoticesAReaderThatVanished checks that a writer notices a reader that opened a stream
// and then sends nothing more.
func TestWriterNoticesAReaderThatVanished(t *testing.T) {
	t.Parallel()
	connect := startServer(t)
	for name, inbox := range map[string]func(c *bus.Conn) string{
		"silent": func(c *bus.Conn) string {
			inbox := c.NewInbox()
			if _, err := c.Subscribe(t.Context(), inbox, func(bus.Message) {}); err != nil {
				t.Fatal(err)
			}
			return inbox
		},
		"a gone reader": func(c *bus.Conn) string { return c.NewInbox() },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			server := connect(time.Second)
			s, err := server.Serve(t.Context(), "svc", "", func(ctx context.Context, _ []byte, _ io.Writer) error {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				s.Unsubscribe()
				<-s.Done()
			}()
			if err := server.Conn.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			c := connect(time.Second).Conn
			if err := c.PublishRequest(t.Context(), "svc", inbox(c), frame{kind: frameOpen, number: 1}.encode()); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if !errors.Is(err, ErrLost) {
					t.Errorf("the handler ended by %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the handler's context did not end")
			}
		})
	}
}

// TestReaderNoticesABadWriter checks that a reader notices every kind of wrong answer, from a
// writer that the test controls.
func TestReaderNoticesABadWriter(t *testing.T) {
	t.Parallel()
	connect := startServer(t)
	for name, tc := range map[string]struct {
		frames []frame
		want   error
	}{
		"silence":                       {[]frame{{kind: frameData, body: []byte("a")}}, ErrLost},
		"a missing part":                {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameData, number: 2, body: []byte("c")}}, ErrBroken},
		"a repeated part":               {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameData, body: []byte("a")}}, ErrBroken},
		"a missing last part":           {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameEnd, number: 2}}, ErrBroken},
		"a beat that counts more parts": {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameBeat, number: 2}}, ErrBroken},
		"a frame of the reader":         {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameCredit, number: 9}}, ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			dead := time.Minute
			if errors.Is(tc.want, ErrLost) {
				dead = time.Second
			}
			opened, got, err := badWriter(t, connect(dead), connect(dead), tc.frames)
			// On a stalled machine the writer may seem silent before it has sent anything.
			for ; opened && got == "" && errors.Is(err, ErrLost) && errors.Is(tc.want, ErrLost) && dead < 16*time.Second; dead *= 2 {
				opened, got, err = badWriter(t, connect(2*dead), connect(2*dead), tc.frames)
			}
			// The reader may notice before Open can return.
			if opened && got != "a" || !errors.Is(err, tc.want) {
				t.Errorf("read %q, %v; want a, %v", got, err, tc.want)
			}
		})
	}
}

// badWriter makes w accept a stream of r and send some frames, and returns what the reader read.
func badWriter(t *testing.T, w, r Transport, frames []frame) (opened bool, got string, err error) {
	t.Helper()
	sub, err := w.Conn.Subscribe(t.Context(), "svc", func(m bus.Message) {
		_ = w.Conn.PublishRequest(t.Context(), m.Reply, w.Conn.InboxFor(m.Reply), frame{kind: frameAccept}.encode())
		for _, f := range frames {
			_ = w.Conn.Publish(t.Context(), m.Reply, f.encode())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		sub.Unsubscribe()
		if err := w.Conn.Flush(t.Context()); err != nil { // Otherwise it would answer the next one too.
			t.Error(err)
		}
	}()
	if err := w.Conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream, err := r.Open(t.Context(), "svc", nil)
	if err != nil {
		return false, "", err
	}
	defer closing(t, stream)
	read, err := io.ReadAll(stream)
	return true, string(read), err
}

func TestStreamThatIsIdleLives(t *testing.T) {
	t.Parallel()
	connect := startServer(t)
	// A stalled machine makes a stream look dead, but not forever.
	for dead := time.Second; ; dead *= 2 {
		got, err := idle(t, connect(dead), connect(dead))
		if err == nil && got == "late" {
			return
		}
		if dead >= 16*time.Second {
			t.Fatalf("read %q, %v", got, err)
		}
	}
}

// idle opens a stream on which the handler sends nothing for longer than its ends may be silent,
// and returns what the reader read.
func idle(t *testing.T, w, r Transport) (string, error) {
	t.Helper()
	release := make(chan struct{})
	s, err := w.Serve(t.Context(), "svc", "", func(_ context.Context, _ []byte, out io.Writer) error {
		<-release
		_, err := io.WriteString(out, "late")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.Unsubscribe()
		<-s.Done()
	}()
	if err := w.Conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream, err := r.Open(t.Context(), "svc", nil)
	if err != nil {
		close(release)
		return "", err
	}
	defer closing(t, stream)
	<-time.After(2 * w.timing.dead)
	close(release)
	got, err := io.ReadAll(stream)
	return string(got), err
}

func FuzzFrame(f *testing.F) {
	f.Add(frame{kind: frameData, number: 7, body: []byte("x")}.encode())
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		decoded, err := decodeFrame(data)
		if err == nil && !bytes.Equal(decoded.encode(), data) {
			t.Fatalf("%x was re-encoded as %x", data, decoded.encode())
		}
		if err := decodeFault(data); len(data) > 0 && err == nil {
			t.Fatal("an error was decoded as success")
		}
	})
}

// closing closes what a test has read.
func closing(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}
