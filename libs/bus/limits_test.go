package bus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/garboard/garboard/libs/bus/bustest"
)

// shippedSubscriptions is the limit of subscriptions per client in every shipped server
// configuration.
const shippedSubscriptions = 8192

// limited runs a server with only the limits of a shipped configuration.
func limited(t *testing.T, shipped string) (url string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, shipped))
	if err != nil {
		t.Fatal(err)
	}
	limits := regexp.MustCompile(`(?m)^ *max_(payload|pending|subscriptions|connections|control_line): .*$`).FindAllString(string(data), -1)
	if len(limits) != 5 {
		t.Fatalf("limits in %s: %q", shipped, limits)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	write(t, file, []byte("listen: 127.0.0.1:-1\n"+strings.Join(limits, "\n")+"\n"))
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs, options.NoLog = true, true
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server did not start")
	}
	return s.ClientURL()
}

// TestSubscriptionLimit checks that each shipped server refuses a client the first
// subscription over the limit. That affects neither the client's other subscriptions nor other
// clients.
func TestSubscriptionLimit(t *testing.T) {
	for name, start := range map[string]func(*testing.T) string{
		"compose":  func(t *testing.T) string { return limited(t, "compose/nats/nats.conf") },
		"example":  func(t *testing.T) string { return limited(t, "docs/examples/nats/nats.conf") },
		"chart":    func(t *testing.T) string { return limited(t, "test/chart/testdata/golden/certmanager.yaml") },
		"embedded": func(t *testing.T) string { return bustest.NewServer(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			url := start(t)
			refused := make(chan error, 10)
			connect := func() *nats.Conn {
				t.Helper()
				c, err := nats.Connect(url, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				return c
			}
			hostile, other := connect(), connect()
			heard := make(chan *nats.Msg, 10)
			subscribe := func(c *nats.Conn, subject string) {
				t.Helper()
				if _, err := c.ChanSubscribe(subject, heard); err != nil {
					t.Fatal(err)
				}
			}
			flush := func(c *nats.Conn) {
				t.Helper()
				if err := c.FlushTimeout(time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			for i := range shippedSubscriptions {
				subscribe(hostile, fmt.Sprint("s.", i))
			}
			flush(hostile)
			select {
			case err := <-refused:
				t.Fatalf("refused below the limit: %v", err)
			default:
			}
			subscribe(hostile, "s.more")
			flush(hostile)
			select {
			case err := <-refused:
				if !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
					t.Errorf("refused with %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("a subscription over the limit is not refused")
			}
			subscribe(other, "other")
			flush(other)
			for _, subject := range []string{"s.more", "s.8191", "other"} {
				if err := other.Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				select {
				case m := <-heard:
					if m.Subject == "s.more" {
						t.Error("a message arrived at the refused subject")
					}
				case <-time.After(time.Minute):
					t.Fatal("the other subscriptions receive nothing")
				}
			}
			if !hostile.IsConnected() || !other.IsConnected() {
				t.Error("a connection was closed")
			}
		})
	}
}
