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
)

func openLog(t *testing.T, c *bus.Conn) *bus.Log {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log, err := c.OpenLog(ctx, bus.LogConfig{Stream: "LOG", Subjects: []string{bus.AllWatchSubjects()}, MaxAge: time.Hour, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

func TestLog(t *testing.T) {
	server := bustest.NewServer(t)
	c := server.Connect()
	log := openLog(t, c)
	if _, err := log.Last(t.Context(), bus.AllWatchSubjects()); !errors.Is(err, bus.ErrNone) {
		t.Fatalf("the last message of an empty log: %v", err)
	}
	acked := make(chan error, 100)
	publish := func(name, id string) {
		t.Helper()
		subject := bus.WatchSubject("", "pods", "~", "default", name)
		if err := log.PublishAsync(subject, []byte(name), id, func(err error) { acked <- err }); err != nil {
			t.Fatal(err)
		}
		if err := receive(t, acked, "an acknowledgement"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		publish(fmt.Sprint("p", i), fmt.Sprint("id", i))
	}
	publish("p3", "id3") // A repeated message is acknowledged, and not stored again.
	last, err := log.Last(t.Context(), bus.ResourceSubject("", "pods"))
	if err != nil || string(last.Data) != "p9" {
		t.Errorf("the last message is %q, %v; want p9", last.Data, err)
	}
	last, err = log.Last(t.Context(), bus.WatchSubject("", "pods", "~", "default", "p4"))
	if err != nil || string(last.Data) != "p4" {
		t.Errorf("the last message of p4 is %q, %v", last.Data, err)
	}
	if _, err := log.Last(t.Context(), bus.ResourceSubject("", "nodes")); !errors.Is(err, bus.ErrNone) {
		t.Errorf("the last message of a resource without any: %v", err)
	}
	if err := log.PublishAsync("nobody.keeps.this", nil, "", func(err error) { acked <- err }); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, acked, "an acknowledgement"); !errors.Is(err, bus.ErrNoLog) {
		t.Errorf("a subject that the log does not keep: %v", err)
	}
	if n := log.Unacknowledged(); n != 0 {
		t.Errorf("%d messages wait for nothing", n)
	}

	// It survives the server, and is opened again with other bounds.
	server.Stop()
	server.Start()
	d := server.Connect()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again, err := d.OpenLog(ctx, bus.LogConfig{Stream: "LOG", Subjects: []string{bus.AllWatchSubjects()}, MaxAge: 2 * time.Hour, MaxBytes: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if last, err := again.Last(ctx, bus.AllWatchSubjects()); err != nil || string(last.Data) != "p9" {
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
		err = log.PublishAsync(bus.ProgressSubject("", "pods"), []byte("x"), "", func(err error) {
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
		t.Errorf("%d messages wait after the end", n)
	}
}

func TestLogIsBounded(t *testing.T) {
	server := bustest.NewServer(t)
	c := server.Connect()
	log := openLog(t, c)
	// Nobody acknowledges at a subject where somebody listens but no log keeps it.
	deaf := server.Connect()
	if _, err := deaf.Subscribe(t.Context(), "deaf", func(bus.Message) {}); err != nil {
		t.Fatal(err)
	}
	if err := deaf.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var untracked int
	for i := range bus.MaxUnacknowledged + 5 {
		err := log.PublishAsync("deaf", nil, "", func(error) {})
		switch {
		case errors.Is(err, bus.ErrNotTracked):
			untracked++
		case err != nil:
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if untracked == 0 || log.Unacknowledged() > bus.MaxUnacknowledged {
		t.Errorf("%d messages wait, %d are not tracked", log.Unacknowledged(), untracked)
	}
}

// TestLogSupersedes checks that a log which is to keep more than before puts an end to the
// logs of a former configuration, and to no others.
func TestLogSupersedes(t *testing.T) {
	c := bustest.New(t)
	pods, nodes := bus.ResourceSubject("", "pods"), bus.ResourceSubject("", "nodes")
	for stream, subject := range map[string]string{"WATCH": pods, "WATCH_NODES": nodes} {
		log, err := c.OpenLog(t.Context(), bus.LogConfig{Stream: stream, Subjects: []string{subject}})
		if err != nil {
			t.Fatal(err)
		}
		log.Close()
	}
	all := bus.LogConfig{Stream: "WATCH", Subjects: []string{bus.AllWatchSubjects()}}
	if log, err := c.OpenLog(t.Context(), all); err == nil {
		log.Close()
		t.Fatal("a subject is kept by two logs")
	}
	all.Supersedes = "OTHER_"
	if log, err := c.OpenLog(t.Context(), all); err == nil {
		log.Close()
		t.Fatal("a log was deleted that was not to be")
	}
	all.Supersedes = "WATCH_"
	log, err := c.OpenLog(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Last(t.Context(), nodes); !errors.Is(err, bus.ErrNone) {
		t.Error(err)
	}
}

func TestReadLog(t *testing.T) {
	c := bustest.New(t)
	reader := c.ReadLog("LOG")
	pods := bus.ResourceSubject("", "pods")
	if _, err := reader.Span(t.Context()); !errors.Is(err, bus.ErrNone) {
		t.Errorf("the span of a log that is not there: %v", err)
	}
	if _, err := reader.Next(t.Context(), pods, 1); !errors.Is(err, bus.ErrNone) {
		t.Errorf("reading a log that is not there: %v", err)
	}
	if _, err := reader.State(t.Context()); !errors.Is(err, bus.ErrNone) {
		t.Errorf("the state of a log that is not there: %v", err)
	}
	log := openLog(t, c)
	if state, err := reader.State(t.Context()); err != nil || state != (bus.LogState{Replicas: 1, Current: 1}) {
		t.Errorf("the state of an empty log is %+v, %v", state, err)
	}
	if span, err := reader.Span(t.Context()); err != nil || span.Last >= span.First || !span.Oldest.IsZero() {
		t.Errorf("the span of an empty log is %+v, %v", span, err)
	}
	acked := make(chan error, 1)
	large := make([]byte, 1000<<10) // as large as a message can be
	for i, resource := range []string{"pods", "nodes", "pods", "nodes"} {
		data := fmt.Append(nil, i)
		if i == 2 {
			data = large
		}
		if err := log.PublishAsync(bus.WatchSubject("", resource, "~", "", "x"), data, "", func(err error) { acked <- err }); err != nil {
			t.Fatal(err)
		}
		if err := receive(t, acked, "an acknowledgement"); err != nil {
			t.Fatal(err)
		}
	}
	if state, err := reader.State(t.Context()); err != nil || state.Messages != 4 || state.Bytes < 1000<<10 || state.Oldest.IsZero() {
		t.Errorf("the state is %+v, %v", state, err)
	}
	span, err := reader.Span(t.Context())
	if err != nil || span.First != 1 || span.Last != 4 || span.Oldest.IsZero() {
		t.Errorf("the span is %+v, %v", span, err)
	}
	first, err := reader.Next(t.Context(), pods, 0)
	if err != nil || first.Sequence != 1 || string(first.Data) != "0" || !first.Time.Equal(span.Oldest) || first.Subject != "gb.watch.core.pods.~.~.x" {
		t.Errorf("the first message is %+v, %v", first, err)
	}
	second, err := reader.Next(t.Context(), pods, 2)
	if err != nil || second.Sequence != 3 || len(second.Data) != len(large) {
		t.Errorf("the second message is at %d with %d bytes, %v", second.Sequence, len(second.Data), err)
	}
	if m, err := reader.Next(t.Context(), pods, 4); !errors.Is(err, bus.ErrNone) {
		t.Errorf("behind the last message: %+v, %v", m, err)
	}
	for _, tc := range []struct {
		since time.Time
		want  uint64
	}{{first.Time.Add(-time.Hour), 1}, {first.Time, 1}, {first.Time.Add(1), 3}, {second.Time, 3}} {
		if m, err := reader.NextSince(t.Context(), pods, tc.since); err != nil || m.Sequence != tc.want {
			t.Errorf("since %v: the message at %d, %v; want that at %d", tc.since, m.Sequence, err, tc.want)
		}
	}
	if m, err := reader.NextSince(t.Context(), pods, second.Time.Add(time.Hour)); !errors.Is(err, bus.ErrNone) {
		t.Errorf("since the future: %+v, %v", m, err)
	}
}

func TestLogOnThreeServers(t *testing.T) {
	servers := bustest.NewCluster(t, 3)
	c := servers[0].Connect()
	cfg := bus.LogConfig{Stream: "LOG", Subjects: []string{bus.AllWatchSubjects()}, MaxAge: time.Hour, Replicas: 1}
	open := func() *bus.Log {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			log, err := c.OpenLog(ctx, cfg)
			cancel()
			if err == nil {
				return log
			}
			// The servers may still be agreeing on who leads.
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			t.Log(err)
		}
	}
	open().Close()
	cfg.Replicas = 3 // what is there already gets its replicas
	log := open()
	defer log.Close()
	subject := bus.WatchSubject("", "pods", "~", "default", "x")
	publish := func(data string) {
		t.Helper()
		acked := make(chan error, 1)
		for deadline := time.Now().Add(patience); ; {
			err := log.PublishAsync(subject, []byte(data), "id-"+data, func(err error) { acked <- err })
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
		// Whichever leads: with one of three servers gone, two have all that was acknowledged.
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
		m, err := reader.Next(ctx, bus.AllWatchSubjects(), from)
		cancel()
		if errors.Is(err, bus.ErrNone) {
			break
		}
		if err != nil {
			// The servers may still be agreeing on who leads.
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
