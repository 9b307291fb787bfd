package bus_test

import (
	"context"
	"errors"
	"fmt"
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
