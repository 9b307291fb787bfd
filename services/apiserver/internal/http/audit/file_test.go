package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newTestSink(file File) (*sink, *metrics) {
	m := newMetrics(prometheus.NewRegistry())
	return newSink(file, m, quiet()), m
}

func count(t *testing.T, counter prometheus.Counter) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// start runs a sink; stop ends it and waits.
func start(t *testing.T, s *sink) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// inTheLog reports whether a line with this outcome is in the log once the sink has ended. A line
// whose sender gave up on a slow disk is written, too.
func inTheLog(err error) bool { return err == nil || errors.Is(err, errSlow) }

func line(i int) []byte { return fmt.Appendf(nil, "%05d\n", i) }

// logs returns the contents of the rotated files and of the log, the newest last.
func logs(t *testing.T, path string) []string {
	t.Helper()
	names, err := filepath.Glob(strings.TrimSuffix(path, ".log") + "*.log")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(names, func(a, b string) int { // "audit.log" is the newest
		return strings.Compare(strings.ReplaceAll(a, "audit.log", "audit~"), strings.ReplaceAll(b, "audit.log", "audit~"))
	})
	var texts []string
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	return texts
}

// TestRotation: the log is rotated at its maximum size, between lines, and no line is lost.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "audit.log")
	const lines = 100
	for round := range 2 { // in the second round the log already exists
		s, m := newTestSink(File{Path: path, MaxSize: 60})
		stop := start(t, s)
		for i := range lines {
			if err := s.write(line(round*lines+i), ModeBlocking); !inTheLog(err) {
				t.Fatal(err)
			}
		}
		stop()
		if n := count(t, m.failed.WithLabelValues("log")); n != 0 {
			t.Errorf("%v events are lost, want 0", n)
		}
	}
	texts := logs(t, path)
	if len(texts) != 2*lines/10 {
		t.Errorf("got %d files, want %d", len(texts), 2*lines/10)
	}
	var want strings.Builder
	for i := range 2 * lines {
		want.Write(line(i))
	}
	if got := strings.Join(texts, ""); got != want.String() {
		t.Errorf("the logs hold %q, want %q", got, want.String())
	}
	for _, text := range texts {
		if len(text) > 60 || len(text)%6 != 0 {
			t.Errorf("a file holds %q, want whole lines of at most 60 bytes", text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log's mode is %v (%v), want 0600", info.Mode(), err)
	}
}

// TestOldLogsGo: rotated files that are too many or too old are removed, and nothing else.
func TestOldLogsGo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	now := time.Date(2030, 1, 10, 0, 0, 0, 0, time.UTC)
	old := func(days int) string {
		return "audit-" + now.AddDate(0, 0, -days).Format(backupTime) + ".log"
	}
	others := []string{"audit.log", "audit-note.log", "audit-2020-01-01T00-00-00.000.txt", "other-2020-01-01T00-00-00.000.log"}
	for _, c := range []struct {
		file File
		left []int
	}{
		{File{}, []int{1, 2, 3, 4, 5}},
		{File{MaxBackups: 2}, []int{1, 2}},
		{File{MaxAge: 3*24*time.Hour + time.Hour}, []int{1, 2, 3}},
		{File{MaxBackups: 4, MaxAge: 2*24*time.Hour + time.Hour}, []int{1, 2}},
		{File{MaxBackups: 1, MaxAge: 4 * 24 * time.Hour}, []int{1}},
	} {
		want := slices.Clone(others)
		for _, name := range others {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for days := range 5 {
			if err := os.WriteFile(filepath.Join(dir, old(days+1)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, days := range c.left {
			want = append(want, old(days))
		}
		c.file.Path = path
		r := rotating{File: c.file}
		if err := r.prune(now); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, entry := range entries {
			got = append(got, entry.Name())
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%+v leaves %q, want %q", c.file, got, want)
		}
	}
}

// TestUnwritable: a log that cannot be opened keeps the process from starting.
func TestUnwritable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := newTestSink(File{Path: filepath.Join(path, "audit.log")})
	if err := s.run(t.Context()); err == nil {
		t.Error("the sink runs without its log")
	}
}

// broken fails every write.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }
func (broken) Close() error              { return nil }

// TestLostEventsAreCounted: lost events are counted in every mode, and logged only once.
func TestLostEventsAreCounted(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry())
	var log bytes.Buffer
	s := newSink(File{}, m, slog.New(slog.NewTextHandler(&log, nil)))
	out := &rotating{out: broken{}}
	written := make(chan error, 1)
	for range 3 {
		s.flush(out, entry{line: line(1), written: written})
		if err := <-written; err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("the request gets %v, want the write error", err)
		}
	}
	if n := count(t, m.failed.WithLabelValues("log")); n != 3 {
		t.Errorf("%v lost events are counted, want 3", n)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("the failure is logged %d times, want 1: %s", n, &log)
	}
}

// TestNoRequestWaitsForEver: while the sink does not run, a blocking request waits for patience and
// others not at all; events that don't fit in the queue are counted.
func TestNoRequestWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := newTestSink(File{})
		began := time.Now()
		if err := s.write(line(1), ModeBlocking); !errors.Is(err, errSlow) || time.Since(began) != patience {
			t.Errorf("a blocking write returns %[2]v after %[1]v, want errSlow after its patience", time.Since(began), err)
		}
		began = time.Now()
		for i := range waiting - 1 {
			if err := s.write(line(i), ModeBatch); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
		}
		if err := s.write(line(1), ModeBatch); !errors.Is(err, errFull) || time.Since(began) != 0 {
			t.Errorf("a write to a full queue returns %[2]v after %[1]v, want errFull at once", time.Since(began), err)
		}
		if err := s.write(line(1), ModeBlocking); !errors.Is(err, errFull) || time.Since(began) != patience {
			t.Errorf("a blocking write to a full queue returns %[2]v after %[1]v, want errFull after its patience", time.Since(began), err)
		}
		if n := count(t, m.failed.WithLabelValues("buffered")); n != 2 {
			t.Errorf("%v lost events are counted, want 2", n)
		}
	})
}

// TestEndWritesWhatIsLeft: while the log ends among many requests, each learns whether its event
// was written or lost, and what is reported as written is in the log.
func TestEndWritesWhatIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	s, m := newTestSink(File{Path: path, MaxSize: 1000})
	stop := start(t, s)
	const senders, each = 8, 200
	var mu sync.Mutex
	want := map[string]bool{}
	var group sync.WaitGroup
	half := make(chan struct{}, senders)
	for sender := range senders {
		group.Go(func() {
			mode := ModeBlocking
			if sender%2 == 0 {
				mode = ModeBatch
			}
			for i := range each {
				if i == each/2 {
					half <- struct{}{}
				}
				text := line(sender*each + i)
				if inTheLog(s.write(text, mode)) {
					mu.Lock()
					want[string(text)] = true
					mu.Unlock()
				}
			}
		})
	}
	for range senders {
		<-half
	}
	stop()
	group.Wait()
	if err := s.write(line(0), ModeBatch); !errors.Is(err, errEnded) {
		t.Errorf("after the end: got %v, want errEnded", err)
	}
	got := map[string]bool{}
	for text := range strings.Lines(strings.Join(logs(t, path), "")) {
		if got[text] {
			t.Errorf("%q is written twice", text)
		}
		got[text] = true
	}
	for text := range want {
		if !got[text] {
			t.Errorf("%q was reported as written and is not in the log", text)
		}
	}
	lost := count(t, m.failed.WithLabelValues("buffered"))
	if len(want)+int(lost) != senders*each+1 {
		t.Errorf("%d events are written and %v lost, want %d in all", len(want), lost, senders*each+1)
	}
}

// TestEndWaitsForSenders: a sender that has begun when the log ends is waited for.
func TestEndWaitsForSenders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestSink(File{Path: path})
		s.senders.Add(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		done := make(chan error, 1)
		go func() { done <- s.run(ctx) }()
		time.Sleep(time.Second)
		select {
		case err := <-done:
			t.Errorf("the log ended while a sender was active: %v", err)
		default:
		}
		s.queue <- entry{line: line(1)}
		s.senders.Add(-1)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if texts := logs(t, path); len(texts) != 1 || texts[0] != "00001\n" {
		t.Errorf("the log holds %q", texts)
	}
}

// TestStdoutStaysOpen: closing the log leaves standard output open, since other code writes there,
// too.
func TestStdoutStaysOpen(t *testing.T) {
	r, err := File{Path: Stdout, MaxSize: 1}.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.out = keepOpen{&out}
	if err := errors.Join(r.write([][]byte{line(1), line(2)}), r.Close()); err != nil {
		t.Fatal(err)
	}
	if out.String() != "00001\n00002\n" {
		t.Errorf("the output is %q", out.String())
	}
	if _, err := io.WriteString(os.Stdout, ""); err != nil {
		t.Error(err)
	}
}
