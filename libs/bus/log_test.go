package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
)

func openLog(t *testing.T, c *bus.Conn) *bus.Log {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log, err := c.OpenLog(ctx, bus.LogConfig{Stream: "LOG", Subjects: []string{subject.AllWatch()}, MaxAge: time.Hour, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

// patiently returns a context for calls that would otherwise fail after 5 or 10 s, long enough for
// a stalled disk.
func patiently(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

// store publishes a message until the log acknowledges it, which takes long on a stalled machine.
// The ID prevents it from being stored twice.
func store(t *testing.T, log *bus.Log, subject string, data []byte, id string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		acked := make(chan error, 1)
		if err := log.PublishAsync(subject, data, id, func(err error) { acked <- err }); err != nil {
			t.Fatal(err)
		}
		err := receive(t, acked, "an acknowledgement")
		if err == nil {
			return
		}
		if !errors.Is(err, bus.ErrNotAcknowledged) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestLog(t *testing.T) {
	server := bustest.NewServer(t)
	c := server.Connect()
	log := openLog(t, c)
	ctx := patiently(t)
	if _, err := log.Last(ctx, subject.AllWatch()); !errors.Is(err, bus.ErrNone) {
		t.Fatalf("the last message of an empty log: %v", err)
	}
	acked := make(chan error, 100)
	publish := func(name, id string) {
		t.Helper()
		store(t, log, subject.Watch("", "pods", "~", "default", name), []byte(name), id)
	}
	for i := range 10 {
		publish(fmt.Sprint("p", i), fmt.Sprint("id", i))
	}
	publish("p3", "id3") // A repeated message is acknowledged, and not stored again.
	last, err := log.Last(ctx, subject.Resource("", "pods"))
	if err != nil || string(last.Data) != "p9" {
		t.Errorf("the last message is %q, %v; want p9", last.Data, err)
	}
	last, err = log.Last(ctx, subject.Watch("", "pods", "~", "default", "p4"))
	if err != nil || string(last.Data) != "p4" {
		t.Errorf("the last message of p4 is %q, %v", last.Data, err)
	}
	if _, err := log.Last(ctx, subject.Resource("", "nodes")); !errors.Is(err, bus.ErrNone) {
		t.Errorf("the last message of a resource without any: %v", err)
	}
	if err := log.PublishAsync("nobody.keeps.this", nil, "", func(err error) { acked <- err }); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, acked, "an acknowledgement"); !errors.Is(err, bus.ErrNoLog) {
		t.Errorf("a subject that the log does not store: %v", err)
	}
	if n := log.Unacknowledged(); n != 0 {
		t.Errorf("%d messages are still waiting", n)
	}

	// It survives the server, and can be reopened with other limits.
	server.Stop()
	server.Start()
	d := server.Connect()
	ctx = patiently(t)
	again, err := d.OpenLog(ctx, bus.LogConfig{Stream: "LOG", Subjects: []string{subject.AllWatch()}, MaxAge: 2 * time.Hour, MaxBytes: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if last, err := again.Last(ctx, subject.AllWatch()); err != nil || string(last.Data) != "p9" {
		t.Errorf("after a restart the last message is %q, %v; want p9", last.Data, err)
	}
}

func TestLogWithoutServer(t *testing.T) {
	server := bustest.NewServer(t)
	c := server.Connect()
	log := openLog(t, c)
	acked := make(chan error, 1)
	server.Stop()
	deadline := time.Now().Add(patience)
	var err error
	for sent := 0; err == nil && time.Now().Before(deadline); sent++ {
		err = log.PublishAsync(subject.Progress("", "pods"), []byte("x"), "", func(err error) {
			select {
			case acked <- err:
			default:
			}
		})
		if errors.Is(err, bus.ErrNotTracked) {
			err = nil
		}
	}
	if !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("publishing to the log without a server: %v", err)
	}
	log.Close()
	if n := log.Unacknowledged(); n != 0 {
		t.Errorf("%d messages are still waiting after Close", n)
	}
}

func TestLogIsBounded(t *testing.T) {
	server := bustest.NewServer(t)
	c := server.Connect()
	log := openLog(t, c)
	// No log acknowledges at a subject with a subscriber but without a log.
	deaf := server.Connect()
	if _, err := deaf.Subscribe(t.Context(), "deaf", func(bus.Message) {}); err != nil {
		t.Fatal(err)
	}
	if err := deaf.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var untracked int
	// On a stalled machine the waiting messages fail after 10 s.
	for i, deadline := 0, time.Now().Add(patience); i < bus.MaxUnacknowledged+5 || untracked == 0 && time.Now().Before(deadline); i++ {
		err := log.PublishAsync("deaf", nil, "", func(error) {})
		switch {
		case errors.Is(err, bus.ErrNotTracked):
			untracked++
		case err != nil:
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if untracked == 0 || log.Unacknowledged() > bus.MaxUnacknowledged {
		t.Errorf("%d messages are waiting, %d are untracked", log.Unacknowledged(), untracked)
	}
}

// TestLogSupersedes checks that a log with more subjects deletes the logs of a previous
// configuration, and no others.
func TestLogSupersedes(t *testing.T) {
	c, ctx := bustest.New(t), patiently(t)
	pods, nodes := subject.Resource("", "pods"), subject.Resource("", "nodes")
	for stream, subject := range map[string]string{"WATCH": pods, "WATCH_NODES": nodes} {
		log, err := c.OpenLog(ctx, bus.LogConfig{Stream: stream, Subjects: []string{subject}})
		if err != nil {
			t.Fatal(err)
		}
		log.Close()
	}
	all := bus.LogConfig{Stream: "WATCH", Subjects: []string{subject.AllWatch()}}
	if log, err := c.OpenLog(ctx, all); err == nil {
		log.Close()
		t.Fatal("two logs store the same subject")
	}
	all.Supersedes = "OTHER_"
	if log, err := c.OpenLog(ctx, all); err == nil {
		log.Close()
		t.Fatal("an unrelated log was deleted")
	}
	all.Supersedes = "WATCH_"
	log, err := c.OpenLog(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Last(ctx, nodes); !errors.Is(err, bus.ErrNone) {
		t.Error(err)
	}
}

func TestReadLog(t *testing.T) {
	c, ctx := bustest.New(t), patiently(t)
	reader := c.ReadLog("LOG")
	pods := subject.Resource("", "pods")
	if _, err := reader.Span(ctx); !errors.Is(err, bus.ErrNone) {
		t.Errorf("the span of a missing log: %v", err)
	}
	if _, err := reader.Next(ctx, pods, 1); !errors.Is(err, bus.ErrNone) {
		t.Errorf("reading a missing log: %v", err)
	}
	if _, err := reader.State(ctx); !errors.Is(err, bus.ErrNone) {
		t.Errorf("the state of a missing log: %v", err)
	}
	log := openLog(t, c)
	if state, err := reader.State(ctx); err != nil || state != (bus.LogState{Replicas: 1, Current: 1}) {
		t.Errorf("the state of an empty log is %+v, %v", state, err)
	}
	if span, err := reader.Span(ctx); err != nil || span.Last >= span.First || !span.Oldest.IsZero() {
		t.Errorf("the span of an empty log is %+v, %v", span, err)
	}
	large := make([]byte, 1000<<10) // as large as a message can be
	for i, resource := range []string{"pods", "nodes", "pods", "nodes"} {
		data := fmt.Append(nil, i)
		if i == 2 {
			data = large
		}
		store(t, log, subject.Watch("", resource, "~", "", "x"), data, fmt.Sprint("id", i))
	}
	if state, err := reader.State(ctx); err != nil || state.Messages != 4 || state.Bytes < 1000<<10 || state.Oldest.IsZero() {
		t.Errorf("the state is %+v, %v", state, err)
	}
	span, err := reader.Span(ctx)
	if err != nil || span.First != 1 || span.Last != 4 || span.Oldest.IsZero() {
		t.Errorf("the span is %+v, %v", span, err)
	}
	first, err := reader.Next(ctx, pods, 0)
	if err != nil || first.Sequence != 1 || string(first.Data) != "0" || !first.Time.Equal(span.Oldest) || first.Subject != "gb.watch.core.pods.~.~.x" {
		t.Errorf("the first message is %+v, %v", first, err)
	}
	second, err := reader.Next(ctx, pods, 2)
	if err != nil || second.Sequence != 3 || len(second.Data) != len(large) {
		t.Errorf("the second message is at %d with %d bytes, %v", second.Sequence, len(second.Data), err)
	}
	if m, err := reader.Next(ctx, pods, 4); !errors.Is(err, bus.ErrNone) {
		t.Errorf("after the last message: %+v, %v", m, err)
	}
	for _, tc := range []struct {
		since time.Time
		want  uint64
	}{{first.Time.Add(-time.Hour), 1}, {first.Time, 1}, {first.Time.Add(1), 3}, {second.Time, 3}} {
		if m, err := reader.NextSince(ctx, pods, tc.since); err != nil || m.Sequence != tc.want {
			t.Errorf("since %v: got message %d, %v; want %d", tc.since, m.Sequence, err, tc.want)
		}
	}
	if m, err := reader.NextSince(ctx, pods, second.Time.Add(time.Hour)); !errors.Is(err, bus.ErrNone) {
		t.Errorf("since a future time: %+v, %v", m, err)
	}
}

func TestLogOnThreeServers(t *testing.T) {
	t.Parallel()
	servers := bustest.NewCluster(t, 3)
	c := servers[0].Connect()
	cfg := bus.LogConfig{Stream: "LOG", Subjects: []string{subject.AllWatch()}, MaxAge: time.Hour, Replicas: 1}
	open := func() *bus.Log {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			log, err := c.OpenLog(ctx, cfg)
			cancel()
			if err == nil {
				return log
			}
			// The servers may still be electing a leader.
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			t.Log(err)
		}
	}
	open().Close()
	cfg.Replicas = 3 // existing messages are replicated too
	log := open()
	defer log.Close()
	at := subject.Watch("", "pods", "~", "default", "x")
	publish := func(data string) {
		t.Helper()
		acked := make(chan error, 1)
		// Retry what is not acknowledged in 10 s; electing a leader takes up to 9 s.
		for deadline := time.Now().Add(3 * patience); ; {
			err := log.PublishAsync(at, []byte(data), "id-"+data, func(err error) { acked <- err })
			if err == nil {
				err = receive(t, acked, "an acknowledgement")
			}
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	publish("before")
	for _, s := range servers[1:] {
		// With one of three servers down, the other two hold everything that was acknowledged.
		s.Stop()
		publish("without " + s.URL())
		s.Start()
		publish("with " + s.URL())
	}
	reader := c.ReadLog("LOG")
	var got []string
	deadline := time.Now().Add(patience)
	for from := uint64(1); ; {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		m, err := reader.Next(ctx, subject.AllWatch(), from)
		cancel()
		if errors.Is(err, bus.ErrNone) {
			break
		}
		if err != nil {
			// The servers may still be electing a leader.
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			continue
		}
		got, from = append(got, string(m.Data)), m.Sequence+1
	}
	want := []string{"before", "without " + servers[1].URL(), "with " + servers[1].URL(), "without " + servers[2].URL(), "with " + servers[2].URL()}
	if !slices.Equal(got, want) {
		t.Errorf("the log holds %q, want %q", got, want)
	}
}

// TestClosedLog checks that a closed log refuses messages, since it could never acknowledge them.
func TestClosedLog(t *testing.T) {
	log := openLog(t, bustest.New(t))
	log.Close()
	err := log.PublishAsync(subject.Progress("", "pods"), []byte("x"), "", func(error) { t.Error("the message was acknowledged") })
	if err == nil || log.Unacknowledged() != 0 {
		t.Errorf("a closed log took a message: %v, %d wait", err, log.Unacknowledged())
	}
}
