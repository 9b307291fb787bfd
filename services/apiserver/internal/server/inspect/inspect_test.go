package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/server/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conn is a connection of which a test decides what NATS says about itself.
type conn struct {
	*bus.Conn
	closed bool
	health map[string]bus.LogHealth
	broken error
}

func (c *conn) AuthRequired() bool { return c.closed }

func (c *conn) Server(ctx context.Context) (bus.ServerInfo, error) {
	if c.broken != nil {
		return bus.ServerInfo{}, c.broken
	}
	return c.Conn.Server(ctx)
}

func (c *conn) LogHealth(_ context.Context, stream string) (bus.LogHealth, error) {
	health, ok := c.health[stream]
	if !ok {
		return health, errors.New("no such log")
	}
	return health, nil
}

// etcd is a cluster that says whose election it was asked for.
type etcd struct{}

func (etcd) Status(_ context.Context, election string) report.Etcd {
	return report.Etcd{Name: election}
}

// serve makes a process answer until the test ends.
func serve(t *testing.T, server *bustest.Server, service, replica string) {
	t.Helper()
	conn := server.Connect()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- report.Serve(ctx, conn, report.Self{Service: service, Replica: replica}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func told(answers []report.Answer) string {
	var parts []string
	for _, a := range answers {
		parts = append(parts, a.Service+"/"+a.Replica)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// TestOnlyTheGenuineAreBelieved: on a bus that knows its users, an answer counts only if its user
// may run the service that it claims to be.
func TestOnlyTheGenuineAreBelieved(t *testing.T) {
	server := bustest.NewServer(t)
	for _, service := range []string{report.Apiserver, report.Controllers, report.Scheduler, report.NodeAgent, "registry"} {
		serve(t, server, service, "n1")
	}
	c := &conn{Conn: server.Connect()}
	inspector := func(user string) *inspect.Inspector {
		return inspect.New(inspect.Config{
			Conn: func() inspect.Conn { return c }, Self: report.Self{Service: report.Apiserver, Replica: "self"},
			Who: func(string) string { return user }, Patience: 300 * time.Millisecond,
		})
	}
	// A process may take long to answer, so the question is repeated.
	await := func(user, want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			status, err := inspector(user).Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := told(status.Answers)
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("as %q there are %s, want %s", user, got, want)
			}
		}
	}
	const own = "apiserver/self"
	await("", "apiserver/n1 "+own+" controllers/n1 nodeagent/n1 registry/n1 scheduler/n1")
	c.closed = true
	for user, want := range map[string]string{
		"":                               "apiserver/n1 " + own,
		"system:kube-controller-manager": own + " controllers/n1 registry/n1",
		"system:kube-scheduler":          own + " registry/n1 scheduler/n1",
		"system:node:n1":                 own + " nodeagent/n1 registry/n1",
		"system:node:n2":                 own + " registry/n1",
		"jane":                           own + " registry/n1",
	} {
		await(user, want)
	}
}

// TestStatus describes etcd, NATS and its logs, whatever of it is broken.
func TestStatus(t *testing.T) {
	server := bustest.NewServer(t)
	c := &conn{Conn: server.Connect(), health: map[string]bus.LogHealth{"log": {
		Clustered: true, Wanted: 3, Leader: "a", Others: []bus.LogReplica{{Name: "b", Current: true, Lag: 7}}, Messages: 5, MaxBytes: -1, Consumers: 1,
	}}}
	connected := inspect.Conn(c)
	i := inspect.New(inspect.Config{
		Clusters: []inspect.Cluster{{Etcd: etcd{}, Election: "main", Stream: "log"}, {Etcd: etcd{}, Election: "events", Stream: "none"}},
		Conn:     func() inspect.Conn { return connected }, Self: report.Self{Service: report.Apiserver, Replica: "self"},
		Who: func(string) string { return "" }, Patience: 10 * time.Millisecond,
	})
	get := func() *report.Status {
		t.Helper()
		status, err := i.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(status.Etcd) != 2 || status.Etcd[0].Name != "main" || status.Etcd[1].Name != "events" || status.Apiserver != "self" ||
			status.Now.IsZero() || told(status.Answers) != "apiserver/self" {
			t.Errorf("the status is %+v", status)
		}
		return status
	}
	status := get()
	if status.Fault != "" || status.NATS.Fault != "" || status.NATS.Version == "" || !status.NATS.Open || len(status.NATS.Streams) != 2 {
		t.Fatalf("NATS is %+v, %s", status.NATS, status.Fault)
	}
	log, none := status.NATS.Streams[0], status.NATS.Streams[1]
	if log.Fault != "" || !log.Clustered || log.Wanted != 3 || log.Leader != "a" || len(log.Replicas) != 1 || log.Replicas[0].Lag != 7 ||
		log.Messages != 5 || log.MaxBytes != 0 || log.Consumers != 1 {
		t.Errorf("the log is %+v", log)
	}
	if none.Name != "none" || none.Fault != "no such log" {
		t.Errorf("the missing log is %+v", none)
	}
	c.broken = bus.ErrDisconnected
	if status := get(); status.NATS.Fault != bus.ErrDisconnected.Error() {
		t.Errorf("without a server NATS is %+v", status.NATS)
	}
	server.Stop()
	if status := get(); status.Fault == "" {
		t.Error("without a server nothing is at fault")
	}
	connected = nil
	if status := get(); status.NATS.Fault != "NATS was never reached" || !strings.Contains(status.Fault, "NATS was never reached") {
		t.Errorf("without a connection NATS is %+v, %s", status.NATS, status.Fault)
	}
	if _, err := i.Watchers(t.Context()); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("without a connection the watchers are unknown: %v", err)
	}
}

// blocked is a cluster that answers when it is released.
type blocked struct{ begun, release chan struct{} }

func (b blocked) Status(context.Context, string) report.Etcd {
	b.begun <- struct{}{}
	<-b.release
	return report.Etcd{}
}

// TestQueriesAreBounded: a fifth query is turned away, and served when another has ended.
func TestQueriesAreBounded(t *testing.T) {
	b := blocked{begun: make(chan struct{}), release: make(chan struct{})}
	i := inspect.New(inspect.Config{
		Clusters: []inspect.Cluster{{Etcd: b}}, Conn: func() inspect.Conn { return nil }, Self: report.Self{Service: report.Apiserver, Replica: "self"},
	})
	encoder := response.New(scheme.New(), slog.New(slog.DiscardHandler))
	handler := i.ServeStatus(encoder)
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, report.StatusPath, nil))
		return w
	}
	ended := make(chan *httptest.ResponseRecorder)
	for range 4 {
		go func() { ended <- ask() }()
		<-b.begun
	}
	if w := ask(); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("the fifth query is answered with %d, %v", w.Code, w.Header())
	}
	w := httptest.NewRecorder()
	i.ServeWatchers(encoder).ServeHTTP(w, httptest.NewRequest(http.MethodGet, report.WatchersPath, nil))
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("a query for the watchers is answered with %d", w.Code)
	}
	close(b.release)
	for range 4 {
		w := <-ended
		var status report.Status
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || w.Code != http.StatusOK || status.Apiserver != "self" ||
			w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("got %d, %v, %s", w.Code, err, w.Body)
		}
	}
	go func() { <-b.begun }()
	if w := ask(); w.Code != http.StatusOK {
		t.Errorf("when the others have ended, a query is answered with %d", w.Code)
	}
}
