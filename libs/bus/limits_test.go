package bus_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/garboard/garboard/libs/bus/bustest"
)

// shippedSubscriptions is the limit of subscriptions per client in every shipped server
// configuration.
const shippedSubscriptions = 8192

// limited runs a server with only the limits of a configuration, by default below root.
func limited(t *testing.T, shipped string) (url string) {
	t.Helper()
	if !filepath.IsAbs(shipped) {
		shipped = filepath.Join(root, shipped)
	}
	data, err := os.ReadFile(shipped)
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

// bounded runs a server with the limits of a shipped configuration, two of which are replaced by
// small ones.
func bounded(t *testing.T, connections, controlLine int) (url string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "compose/nats/nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for setting, value := range map[string]string{"max_connections": fmt.Sprint(connections), "max_control_line": fmt.Sprint(controlLine)} {
		line := regexp.MustCompile(`(?m)^( *` + setting + `): .*$`)
		if len(line.FindAllString(text, -1)) != 1 {
			t.Fatalf("the configuration has no %s, or several", setting)
		}
		text = line.ReplaceAllString(text, "${1}: "+value)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	write(t, file, []byte(text))
	return limited(t, file)
}

// TestConnectionLimit checks that max_connections refuses the first connection beyond it. Earlier
// connections are not affected, and one that ends makes room.
func TestConnectionLimit(t *testing.T) {
	url := bounded(t, 3, 4096)
	var open []*nats.Conn
	for range 3 {
		c, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		open = append(open, c)
	}
	for range 2 {
		// A client that has sent something may lose the server's reason.
		if said, err := rest(dial(t, url)); !strings.Contains(said, "maximum connections exceeded") {
			t.Fatalf("a connection over the limit gets %q, %v", said, err)
		}
	}
	for i, c := range open {
		if err := c.FlushTimeout(time.Minute); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	open[0].Close()
	// The server notices the end of a connection a little later.
	for end := time.Now().Add(time.Minute); ; {
		c, err := nats.Connect(url)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a connection has ended: %v", err)
		}
	}
}

// TestControlLineLimit checks that max_control_line ends the connection of a client whose line is
// longer, before the line ends: no client makes the server keep a line of any length.
func TestControlLineLimit(t *testing.T) {
	const limit = 512
	url := bounded(t, 10, limit)
	other, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	long := strings.Repeat("s", 2*limit)
	for name, c := range map[string]struct {
		line    string
		refused bool
	}{
		"below":          {"SUB " + strings.Repeat("s", limit/2) + " 1\r\n", false},
		"a subscription": {"SUB " + long + " 1\r\n", true},
		"a message":      {"PUB " + long + " 0\r\n\r\n", true},
		"without an end": {"SUB " + long, true},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, url)
			answers := bufio.NewReader(conn)
			// send sends text and, unless ends, waits for the answer to a ping.
			send := func(text string, ends bool) {
				t.Helper()
				if !ends {
					text += "PING\r\n"
				}
				if _, err := conn.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				for !ends {
					line, err := answers.ReadString('\n')
					if err != nil {
						t.Fatalf("the server does not answer: %v", err)
					}
					if line == "PONG\r\n" {
						return
					}
				}
			}
			send("CONNECT {\"verbose\":false}\r\n", false)
			send(c.line, c.refused)
			if !c.refused {
				return
			}
			// The reason may be lost if the server has not read everything when it closes the connection.
			said, err := rest(answers)
			if !strings.Contains(said, "maximum control line exceeded") && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a line over the limit gets %q, %v", said, err)
			}
		})
	}
	if err := other.FlushTimeout(time.Minute); err != nil {
		t.Errorf("another client: %v", err)
	}
}

// dial opens a connection to a server without a client of NATS. It lasts for a minute at most, and
// ends with the test.
func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// rest returns what a server sends until it closes the connection, in lower case.
func rest(conn io.Reader) (string, error) {
	said, err := io.ReadAll(conn)
	return strings.ToLower(string(said)), err
}
