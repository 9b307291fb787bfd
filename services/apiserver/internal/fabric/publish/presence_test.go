package publish_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// elections is the prefix of the candidates' keys in etcd.
const elections = "/garboard/election/registry/publisher"

// asPublisher names the environment variable that makes a process of this test a publisher; its
// value names etcd and NATS.
const asPublisher = "GARBOARD_TEST_PUBLISHER"

func TestMain(m *testing.M) {
	if where := os.Getenv(asPublisher); where != "" {
		if err := publishAlone(context.Background(), where); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// publishAlone publishes until the process is killed.
func publishAlone(ctx context.Context, where string) error {
	servers, nats, _ := strings.Cut(where, " ")
	quiet := slog.New(slog.DiscardHandler)
	s, err := store.Open(ctx, store.Config{Servers: []string{servers}, Table: table, Logger: quiet})
	if err != nil {
		return err
	}
	conn, err := bus.Connect(ctx, bus.Config{URLs: []string{nats}, Name: "publisher"})
	if err != nil {
		return err
	}
	feeds := feed.New(feed.Config{Store: s, Table: table, Logger: quiet})
	go func() { _ = feeds.Run(ctx) }()
	return publish.New(publish.Config{
		Table: table,
		Parts: []publish.Part{{Storage: s, Holds: only(podKind), OpenLog: logOn(ctx, conn)}}, Feeds: feeds, Bus: conn, Peers: conn, Logger: quiet,
	}).Run(ctx)
}

// publisherProcess starts a process that publishes. It returns once the process leads, with the
// leader's lease.
func publisherProcess(t *testing.T, etcd *etcdtest.Server, server *bustest.Server) (*os.Process, int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asPublisher+"="+etcd.Endpoints()[0]+" "+server.URL())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		said <- line
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if line := <-said; line != "" {
			t.Error(line)
		}
		_ = cmd.Wait()
	})
	for {
		for key := range etcd.Values(t, elections) {
			return cmd.Process, etcd.LeaseOf(t, key)
		}
		select {
		case line := <-said:
			t.Fatalf("the publisher has ended: %s", line)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// candidate is a publisher that waits to be elected.
type candidate struct {
	*replica
	registry *prometheus.Registry
}

func wait(t *testing.T, etcd *etcdtest.Server, conn *bus.Conn) candidate {
	t.Helper()
	c := candidate{registry: prometheus.NewRegistry()}
	c.replica = startWith(t, etcd, publish.Config{
		Table: table,
		Parts: []publish.Part{{Holds: only(podKind), OpenLog: logOn(t.Context(), conn)}}, Bus: conn, Peers: conn, Registerer: c.registry,
	})
	return c
}

// metric returns the value of a metric of elections; 0 if there is none yet.
func (c candidate) metric(name string) float64 {
	all, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, family := range all {
		if m := family.GetMetric()[0]; family.GetName() == name {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return 0
}

func (c candidate) deposed() int { return int(c.metric("garboard_publisher_deposed_total")) }

func (c candidate) leads() bool { return c.metric("garboard_publisher_leader") == 1 }

// TestKilledPublisherIsReplacedAtOnce: after a kill -9 another process publishes while the lease of
// the dead one is still alive; no message is missing.
func TestKilledPublisherIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	conn := server.Connect()
	pods := listen(t, conn, subject.Resource("", "pods"))
	process, lease := publisherProcess(t, etcd, server)
	etcd.KeepAlive(t, lease) // The lease must not expire, however slow the machine is.
	pods.next("progress", isProgress)
	standby := wait(t, etcd, conn)
	before := standby.put(&corev1.Pod{ObjectMeta: meta("default", "before")})
	pods.next("the change before", about("before", watchv1.Type_TYPE_PUT))
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	standby.put(&corev1.Pod{ObjectMeta: meta("default", "after")})
	m := pods.next("the change after", about("after", watchv1.Type_TYPE_PUT))
	if !etcd.Lives(t, lease) {
		t.Error("the lease of the dead publisher has expired: that may be why another publishes")
	}
	if m.GetPrevAll() > before {
		t.Errorf("a hole: at %d came (%d, %d]", before, m.GetPrevAll(), m.GetRevision())
	}
	await(t, "the deposition is counted", func() bool { return standby.deposed() == 1 })
}

// TestStoppedPublisherKeepsItsLease: a stopped process does not answer, but it is not gone: NATS
// cannot tell the difference. Its lease has to expire.
func TestStoppedPublisherKeepsItsLease(t *testing.T) {
	t.Parallel()
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	conn := server.Connect()
	pods := listen(t, conn, subject.Resource("", "pods"))
	process, lease := publisherProcess(t, etcd, server)
	pods.next("progress", isProgress)
	standby := wait(t, etcd, conn)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, process)
	standby.put(&corev1.Pod{ObjectMeta: meta("default", "after")})
	pods.next("the change after", about("after", watchv1.Type_TYPE_PUT))
	if etcd.Lives(t, lease) || standby.deposed() != 0 {
		t.Errorf("the publisher was replaced before its lease expired; %d were deposed", standby.deposed())
	}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	conn, other, silent := server.Connect(), server.Connect(), server.Connect()
	ctx := t.Context()
	reconnected := make(chan struct{}, 10)
	self := publish.NewPresence(conn, "e")
	if self.Gone(ctx, "nobody") {
		t.Error("a process that is not announced claims that another is gone")
	}
	silence, err := self.Announce(ctx, "self")
	if err != nil {
		t.Fatal(err)
	}
	defer silence()
	check := func(candidate string, gone bool) {
		t.Helper()
		if gone { // Gone is false if an answer takes too long.
			await(t, candidate+" is gone", func() bool { return self.Gone(ctx, candidate) })
		} else if self.Gone(ctx, candidate) {
			t.Errorf("%s is gone", candidate)
		}
	}
	check("nobody", true)
	check("self", false)
	there := publish.NewPresence(other, "e")
	leave, err := there.Announce(ctx, "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(ctx); err != nil { // Announce does not wait long for this.
		t.Fatal(err)
	}
	check("other", false)
	if another := publish.NewPresence(conn, "another"); another.Gone(ctx, "other") {
		t.Error("a process that is no candidate of an election claims that another is gone")
	}
	leave()
	if err := other.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	check("other", true)
	if _, err := silent.Subscribe(ctx, subject.Lead("e", "silent"), func(bus.Message) {}); err != nil {
		t.Fatal(err)
	}
	if err := silent.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	check("silent", false)
	silent.Close()
	check("silent", true)

	defer conn.OnReconnect(func() { reconnected <- struct{}{} })()
	server.Stop()
	check("nobody", false)
	if _, err := there.Announce(ctx, "other"); err != nil {
		t.Errorf("announcing without a bus: %v", err)
	}
	server.Start()
	select {
	case <-reconnected:
	case <-time.After(deadline):
		t.Fatal("the bus does not reconnect")
	}
	began := time.Now()
	if self.Gone(ctx, "nobody") && time.Since(began) < time.Second {
		t.Error("a process that has just reconnected claims that another is gone")
	}
	for end := time.After(deadline); !self.Gone(ctx, "nobody"); {
		select {
		case <-end:
			t.Fatal("a process that reconnected long ago does not see that another is gone")
		case <-time.After(50 * time.Millisecond):
		}
	}
	await(t, "the other is back", other.Connected)
	if err := other.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	check("other", false)
}

// TestBusAway checks that without a bus no leader is deposed, and that a candidate can still be
// elected.
func TestBusAway(t *testing.T) {
	t.Parallel()
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	conn := server.Connect()
	server.Stop()
	lease := etcd.Dead(t, elections, "dead")
	c := wait(t, etcd, conn)
	await(t, "it is a candidate", func() bool { return len(etcd.Values(t, elections)) == 2 })
	if c.deposed() != 0 {
		t.Error("a leader was deposed without a bus")
	}
	if !etcd.Lives(t, lease) {
		t.Fatal("the lease has expired")
	}
	etcd.Revoke(t, fmt.Sprintf("%s/%x", elections, lease))
	await(t, "it leads", c.leads)
}

// awaitStopped waits until all threads of a process are stopped: a signal takes some time, during
// which the process still works.
func awaitStopped(t *testing.T, process *os.Process) {
	t.Helper()
	await(t, "the process is stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", process.Pid))
		for _, thread := range threads {
			var stat []byte
			if stat, err = os.ReadFile(thread); err != nil {
				return false // the thread has just ended
			}
			// The state follows the program's name, which is in parentheses.
			if at := bytes.LastIndexByte(stat, ')'); at+2 >= len(stat) || stat[at+2] != 'T' {
				return false
			}
		}
		return err == nil && len(threads) > 0
	})
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.After(deadline); !done(); {
		select {
		case <-end:
			t.Fatalf("timed out waiting until %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
