package bus

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startServer is bustest.NewServer for tests inside this package: bustest imports it. The returned
// function connects, with streams whose ends may be silent for dead.
func startServer(t *testing.T) func(dead time.Duration) *Conn {
	t.Helper()
	srv, err := server.NewServer(&server.Options{ServerName: "test", DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the server did not become ready")
	}
	return func(dead time.Duration) *Conn {
		c, err := Connect(t.Context(), Config{InProcess: srv.InProcessConn})
		if err != nil {
			t.Fatal(err)
		}
		c.timing = streamTiming{beat: 5 * time.Millisecond, dead: dead}
		t.Cleanup(c.Close)
		return c
	}
}

// TestWriterNoticesAReaderThatVanished checks that a writer notices a reader that opened a stream
// and then sends nothing more.
func TestWriterNoticesAReaderThatVanished(t *testing.T) {
	t.Parallel()
	connect := startServer(t)
	for name, inbox := range map[string]func(c *Conn) string{
		"silent": func(c *Conn) string {
			inbox := c.NewInbox()
			if _, err := c.Subscribe(t.Context(), inbox, func(Message) {}); err != nil {
				t.Fatal(err)
			}
			return inbox
		},
		"a gone reader": func(c *Conn) string { return c.NewInbox() },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			server := connect(time.Second)
			s, err := server.ServeStream(t.Context(), "svc", "", func(ctx context.Context, _ []byte, _ io.Writer) error {
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
			if err := server.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			c := connect(time.Second)
			if err := c.PublishRequest(t.Context(), "svc", inbox(c), frame{kind: frameOpen, number: 1}.encode()); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if !errors.Is(err, ErrStreamLost) {
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
		"silence":                       {[]frame{{kind: frameData, body: []byte("a")}}, ErrStreamLost},
		"a missing part":                {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameData, number: 2, body: []byte("c")}}, ErrStreamBroken},
		"a repeated part":               {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameData, body: []byte("a")}}, ErrStreamBroken},
		"a missing last part":           {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameEnd, number: 2}}, ErrStreamBroken},
		"a beat that counts more parts": {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameBeat, number: 2}}, ErrStreamBroken},
		"a frame of the reader":         {[]frame{{kind: frameData, body: []byte("a")}, {kind: frameCredit, number: 9}}, ErrStreamBroken},
	} {
		t.Run(name, func(t *testing.T) {
			dead := time.Minute
			if errors.Is(tc.want, ErrStreamLost) {
				dead = time.Second
			}
			opened, got, err := badWriter(t, connect(dead), connect(dead), tc.frames)
			// On a stalled machine the writer may seem silent before it has sent anything.
			for ; opened && got == "" && errors.Is(err, ErrStreamLost) && errors.Is(tc.want, ErrStreamLost) && dead < 16*time.Second; dead *= 2 {
				opened, got, err = badWriter(t, connect(2*dead), connect(2*dead), tc.frames)
			}
			// The reader may notice before OpenStream can return.
			if opened && got != "a" || !errors.Is(err, tc.want) {
				t.Errorf("read %q, %v; want a, %v", got, err, tc.want)
			}
		})
	}
}

// badWriter makes w accept a stream of r and send some frames, and returns what the reader read.
func badWriter(t *testing.T, w, r *Conn, frames []frame) (opened bool, got string, err error) {
	t.Helper()
	sub, err := w.Subscribe(t.Context(), "svc", func(m Message) {
		_ = w.PublishRequest(t.Context(), m.Reply, w.InboxFor(m.Reply), frame{kind: frameAccept}.encode())
		for _, f := range frames {
			_ = w.Publish(t.Context(), m.Reply, f.encode())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		sub.Unsubscribe()
		if err := w.Flush(t.Context()); err != nil { // Otherwise it would answer the next one too.
			t.Error(err)
		}
	}()
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream, err := r.OpenStream(t.Context(), "svc", nil)
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
func idle(t *testing.T, w, r *Conn) (string, error) {
	t.Helper()
	release := make(chan struct{})
	s, err := w.ServeStream(t.Context(), "svc", "", func(_ context.Context, _ []byte, out io.Writer) error {
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
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream, err := r.OpenStream(t.Context(), "svc", nil)
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

// TestReconnectDelay checks that delays grow up to the limit, and that they vary.
func TestReconnectDelay(t *testing.T) {
	for _, c := range []struct{ longest, want time.Duration }{{0, maxReconnectDelay}, {300 * time.Millisecond, 300 * time.Millisecond}} {
		delay := reconnectDelay(c.longest)
		seen := map[time.Duration]bool{}
		for attempts := range 100 {
			d := delay(attempts)
			if d > c.want || d < minReconnectDelay/2 || attempts >= 7 && d < c.want/2 {
				t.Errorf("limit %v: attempt %d waits %v", c.want, attempts, d)
			}
			seen[d] = true
		}
		if len(seen) < 50 {
			t.Errorf("limit %v: only %d different delays", c.want, len(seen))
		}
	}
}
