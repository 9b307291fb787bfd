package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve makes a process answer until the test ends.
func serve(t *testing.T, server *bustest.Server, self report.Self) {
	t.Helper()
	conn := server.Connect()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- report.Serve(ctx, conn, self) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// askUntil asks until there are n answers.
func askUntil(t *testing.T, conn *bus.Conn, n int) []report.Answer {
	t.Helper()
	for deadline, patience := time.Now().Add(time.Minute), 500*time.Millisecond; ; patience *= 2 {
		answers, err := report.Ask(t.Context(), conn, patience, func(identity string) string { return "user of " + identity })
		if err != nil {
			t.Fatal(err)
		}
		if len(answers) == n {
			return answers
		}
		if time.Now().After(deadline) {
			t.Fatalf("there are %d answers, want %d: %+v", len(answers), n, answers)
		}
	}
}

func many(n int) []watcher.Status {
	all := make([]watcher.Status, n)
	for i := range all {
		all[i] = watcher.Status{Service: "s", Version: "v1", Resource: fmt.Sprintf("resource-%d", i), LagRevisions: int64(i % 7), Handlers: []watcher.Handler{}}
	}
	return all
}

func TestEveryProcessAnswers(t *testing.T) {
	server := bustest.NewServer(t)
	started := time.Now().Add(-time.Hour)
	serve(t, server, report.Self{
		Service: "controllers", Replica: "b", Version: "v1", Started: started,
		Ready:    func(context.Context) error { return errors.New("pods are not synced") },
		Watchers: func() []watcher.Status { return many(2) },
	})
	serve(t, server, report.Self{
		Service: "controllers", Replica: "a", Version: "v2",
		Ready:        func(context.Context) error { return nil },
		Certificates: func() []report.Certificate { return []report.Certificate{{Use: "x"}} },
	})
	serve(t, server, report.Self{
		Service: "apiserver", Replica: "c",
		Checks: func(context.Context) map[string]string { return map[string]string{"etcd": "away"} },
	})
	// A process whose readiness check never returns answers anyway.
	serve(t, server, report.Self{
		Service: "nodeagent", Replica: "n", Ready: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	})
	answers := askUntil(t, server.Connect(), 4)
	var told []string
	for _, a := range answers {
		told = append(told, fmt.Sprintf("%s %s %s %q %v %d %d", a.Service, a.Replica, a.Version, a.NotReady, a.Checks, len(a.Certificates), len(a.Watchers)))
		if a.Seconds <= 0 || a.Behind > 60 || a.Behind < -60 || a.User != "user of ~" || a.Now.IsZero() || a.Started.IsZero() {
			t.Errorf("%+v", a)
		}
	}
	want := `apiserver c  "" map[etcd:away] 0 0
controllers a v2 "" map[] 1 0
controllers b v1 "pods are not synced" map[] 0 2
nodeagent n  "context deadline exceeded" map[] 0 0`
	if got := strings.Join(told, "\n"); got != want {
		t.Errorf("the answers are\n%s\nwant\n%s", got, want)
	}
	if !answers[2].Started.Equal(started) {
		t.Errorf("it started at %v, want %v", answers[2].Started, started)
	}
	rows := report.Watchers(answers)
	if len(rows) != 2 || rows[1].Replica != "b" || rows[1].Resource != "resource-1" || rows[1].User == "" {
		t.Errorf("the watchers are %+v", rows)
	}
}

// TestLongReports checks that watchers that do not fit are omitted, but never those that are
// furthest behind.
func TestLongReports(t *testing.T) {
	server := bustest.NewServer(t)
	serve(t, server, report.Self{Service: "nodeagent", Replica: "n", Watchers: func() []watcher.Status { return many(5000) }})
	a := askUntil(t, server.Connect(), 1)[0]
	if len(a.Watchers)+a.Omitted != 5000 || a.Omitted == 0 || len(a.Watchers) < 200 {
		t.Fatalf("%d watchers, %d omitted", len(a.Watchers), a.Omitted)
	}
	for i, w := range a.Watchers {
		if i > 0 && w.LagRevisions > a.Watchers[i-1].LagRevisions {
			t.Fatalf("watcher %d is further behind than the one before it", i)
		}
	}
	if a.Watchers[0].LagRevisions != 6 {
		t.Error("the watcher that is furthest behind was omitted")
	}
}

// TestForeignAnswers checks that malformed reports, and repeated ones from the same client, are
// ignored.
func TestForeignAnswers(t *testing.T) {
	server := bustest.NewServer(t)
	strange := server.Connect()
	sub, err := strange.Subscribe(t.Context(), subject.Reports(), func(m bus.Message) {
		to := strange.Client().Report(string(m.Data))
		huge, _ := json.Marshal(report.Report{Service: "huge", NotReady: strings.Repeat("x", 300<<10)})
		for _, data := range [][]byte{[]byte("sheep"), nil, huge, []byte(`{"service":"first"}`), []byte(`{"service":"second"}`)} {
			if err := strange.Publish(t.Context(), to, data); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := strange.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := askUntil(t, server.Connect(), 1)[0]; a.Service != "first" {
		t.Errorf("got %+v", a)
	}
}

// TestHostileQuestions checks that a question is one token, and that a process does not answer one
// that could be part of a subject.
func TestHostileQuestions(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	serve(t, server, report.Self{Service: "controllers", Replica: "a"})
	conn := server.Connect()
	askUntil(t, conn, 1) // It listens.
	heard := make(chan string, 100)
	sub, err := conn.Subscribe(t.Context(), "gb.report.>", func(m bus.Message) { heard <- m.Subject })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, question := range []string{"", "a.b", "*", ">", "low", "A B", strings.Repeat("A", 65), "GOOD"} {
		if err := conn.Publish(t.Context(), subject.Reports(), []byte(question)); err != nil {
			t.Fatal(err)
		}
	}
	askUntil(t, conn, 1) // This question is answered after them.
	select {
	case first := <-heard:
		if !strings.HasSuffix(first, ".GOOD") {
			t.Errorf("got an answer at %s", first)
		}
	case <-time.After(time.Minute):
		t.Error("no answer")
	}
}

func TestAskWithoutNATS(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	conn := server.Connect()
	server.Stop()
	for deadline := time.Now().Add(time.Minute); conn.Connected() && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	if _, err := report.Ask(t.Context(), conn, time.Second, func(string) string { return "" }); err == nil {
		t.Error("no error without NATS")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := report.Ask(ctx, bustest.NewServer(t).Connect(), time.Minute, func(string) string { return "" }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
