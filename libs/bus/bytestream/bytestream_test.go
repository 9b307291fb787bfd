package bytestream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/bytestream"
)

// patience bounds waits for events that should happen at once.
const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

func over(conn *bus.Conn) bytestream.Transport { return bytestream.Transport{Conn: conn} }

func serve(t *testing.T, c *bus.Conn, handle bytestream.Handler) *bytestream.Server {
	t.Helper()
	s, err := over(c).Serve(t.Context(), "svc", "group", handle)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Unsubscribe()
		receive(t, s.Done(), "the end of the served streams")
	})
	return s
}

func TestStreamCarriesEverything(t *testing.T) {
	server := bustest.NewServer(t)
	// Several windows, so that the reader's credit is needed.
	data := make([]byte, 9<<20+17)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(data)
	serve(t, server.Connect(), func(_ context.Context, request []byte, w io.Writer) error {
		if string(request) != "all of it" {
			return errors.New("what?")
		}
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+int(source.Uint64()%700_000))
			if _, err := w.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	})
	r, err := over(server.Connect()).Open(t.Context(), "svc", []byte("all of it"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(data) || sha256.Sum256(got) != sha256.Sum256(data) {
		t.Errorf("got %d bytes that are not the %d sent", len(got), len(data))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestStreamEndsWithTheHandlersError(t *testing.T) {
	server := bustest.NewServer(t)
	serve(t, server.Connect(), func(_ context.Context, _ []byte, w io.Writer) error {
		_, _ = io.WriteString(w, "some ")
		_, _ = io.WriteString(w, "words")
		return errors.New("the disk is gone")
	})
	r, err := over(server.Connect()).Open(t.Context(), "svc", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, r)
	got, err := io.ReadAll(r)
	var remote *bytestream.RemoteError
	if string(got) != "some words" || !errors.As(err, &remote) || remote.Message != "the disk is gone" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestStreamWithoutServer(t *testing.T) {
	c := bustest.New(t)
	if _, err := over(c).Open(t.Context(), "svc", nil); !errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
	if _, err := over(c).Open(t.Context(), "svc", make([]byte, bytestream.MaxPart+1)); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("too large a request: %v", err)
	}
}

func TestStreamHandlerLearnsThatTheReaderClosed(t *testing.T) {
	server := bustest.NewServer(t)
	for name, leave := range map[string]func(r io.ReadCloser, cancel func()){
		"closed":   func(r io.ReadCloser, _ func()) { _ = r.Close() },
		"canceled": func(_ io.ReadCloser, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			s := serve(t, server.Connect(), func(ctx context.Context, _ []byte, w io.Writer) error {
				_, err := io.WriteString(w, "hello")
				<-ctx.Done()
				if _, err := io.WriteString(w, "more"); err == nil {
					t.Error("wrote to a closed stream")
				}
				ended <- errors.Join(err, context.Cause(ctx))
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := over(server.Connect()).Open(ctx, "svc", nil)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 5)
			if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "hello" {
				t.Fatalf("read %q, %v", buf, err)
			}
			leave(r, cancel)
			if err := receive(t, ended, "the handler's end"); !errors.Is(err, bytestream.ErrCanceled) {
				t.Errorf("the handler ended by %v", err)
			}
			if _, err := r.Read(buf); err == nil {
				t.Error("read from a closed stream")
			}
			_ = r.Close()
			s.Unsubscribe()
			receive(t, s.Done(), "the end of the served streams")
		})
	}
}

// TestStreamHoldsTheWriterBack checks that a reader that does not read blocks the writer, and that
// no more than the window is buffered.
func TestStreamHoldsTheWriterBack(t *testing.T) {
	server := bustest.NewServer(t)
	const window = 2 << 20
	wrote, total := make(chan int, 1000), 0
	serve(t, server.Connect(), func(_ context.Context, _ []byte, w io.Writer) error {
		part := bytes.Repeat([]byte("x"), 64<<10)
		for range 100 {
			n, err := w.Write(part)
			if err != nil {
				return err
			}
			wrote <- n
		}
		return nil
	})
	r, err := over(server.Connect()).Open(t.Context(), "svc", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, r)
	for total < window {
		total += receive(t, wrote, "the writer")
	}
	select {
	case <-wrote:
		t.Error("the writer exceeded the window")
	case <-time.After(50 * time.Millisecond):
	}
	if n, err := io.Copy(io.Discard, r); err != nil || n != 100*64<<10 {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestStreamServerEndsItsStreams(t *testing.T) {
	server := bustest.NewServer(t)
	s := serve(t, server.Connect(), func(ctx context.Context, _ []byte, _ io.Writer) error {
		<-ctx.Done()
		return errors.New("going away")
	})
	r, err := over(server.Connect()).Open(t.Context(), "svc", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, r)
	s.Unsubscribe()
	receive(t, s.Done(), "the end of the served streams")
	if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "going away") {
		t.Errorf("the reader got %v", err)
	}
}

func TestStreamRefusesForeignReplySubject(t *testing.T) {
	server := bustest.NewServer(t)
	served := make(chan struct{}, 1)
	serve(t, server.Connect(), func(context.Context, []byte, io.Writer) error {
		served <- struct{}{}
		return nil
	})
	c := server.Connect()
	got := make(chan bus.Message, 10)
	if _, err := c.Subscribe(t.Context(), "gb.watch.>", func(m bus.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	open := append([]byte{1, 0, 0, 0, 0, 0, 0, 1, 0}, "request"...)
	for _, reply := range []string{"gb.watch.core.pods.~.a.b", "_INBOX.short"} {
		if err := c.PublishRequest(t.Context(), "svc", reply, open); err != nil {
			t.Fatal(err)
		}
	}
	r, err := over(c).Open(t.Context(), "svc", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	if len(got) != 0 || len(served) != 1 {
		t.Errorf("got %d answers at foreign subjects and %d requests served, want none", len(got), len(served))
	}
}

// closing closes what a test has read.
func closing(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}
