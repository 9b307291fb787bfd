package proxy

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// pair returns both ends of a connection through a proxy.
func pair(t *testing.T) (p *Proxy, client, server net.Conn) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	p, err = New(t.Context(), listener.Addr().String(), rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if client, err = new(net.Dialer).DialContext(t.Context(), "tcp", p.Address()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for _, conn := range []net.Conn{client, server} {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	return p, client, server
}

// sent makes a server send numbered messages and then PING, and returns those that arrived.
func sent(t *testing.T, client, server net.Conn, count int) []string {
	t.Helper()
	go func() {
		for i := range count {
			body := fmt.Sprintf("%d\r\nMSG ", i) // a body must not be taken for a line
			_, _ = fmt.Fprintf(server, "MSG a.b 1 %d\r\n%s\r\n", len(body), body)
		}
		_, _ = io.WriteString(server, "PING\r\n")
	}()
	var came []string
	for reader := bufio.NewReader(client); ; {
		frame, message, err := readFrame(reader)
		if err != nil {
			t.Fatal(err)
		}
		if !message {
			return came
		}
		came = append(came, strings.Fields(string(frame))[4])
	}
}

func TestSpoil(t *testing.T) {
	const count = 2000
	for name, c := range map[string]struct {
		faults                  Faults
		lost, repeated, swapped bool
	}{
		"nothing":    {},
		"dropped":    {faults: Faults{Drop: 0.05}, lost: true},
		"repeated":   {faults: Faults{Repeat: 0.05}, repeated: true},
		"swapped":    {faults: Faults{Swap: 0.05}, swapped: true},
		"everything": {faults: Faults{Drop: 0.05, Repeat: 0.05, Swap: 0.05}, lost: true, repeated: true, swapped: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, client, server := pair(t)
			p.Spoil(c.faults)
			came := sent(t, client, server, count)
			seen := map[string]int{}
			for _, number := range came {
				seen[number]++
			}
			repeated := false
			for _, times := range seen {
				repeated = repeated || times > 1
			}
			swapped := !slices.IsSortedFunc(came, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
			if lost := len(seen) < count; lost != c.lost || repeated != c.repeated || swapped != c.swapped {
				t.Errorf("lost %v, repeated %v, swapped %v", lost, repeated, swapped)
			}
			if spoiled := p.Spoiled() > 0; spoiled != (c.faults != Faults{}) {
				t.Errorf("got %d spoiled messages", p.Spoiled())
			}
		})
	}
}

func TestHoldAndHeal(t *testing.T) {
	p, client, server := pair(t)
	p.Hold()
	if _, err := io.WriteString(client, "x"); err != nil {
		t.Fatal(err)
	}
	if err := server.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1)
	if n, err := server.Read(buffer); err == nil {
		t.Errorf("%d bytes passed a proxy that holds data", n)
	}
	if err := server.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	if _, err := io.ReadFull(server, buffer); err != nil {
		t.Errorf("nothing arrives after Heal: %v", err)
	}
}

func TestCutAndHeal(t *testing.T) {
	p, client, _ := pair(t)
	p.Cut()
	if _, err := io.ReadAll(client); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("a cut connection does not end: %v", err)
	}
	again, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Address())
	if err == nil {
		_ = again.SetDeadline(time.Now().Add(patience))
		if _, err := again.Read(make([]byte, 1)); err == nil {
			t.Error("a cut proxy forwards data")
		}
		_ = again.Close()
	}
}

func TestPayload(t *testing.T) {
	for line, want := range map[string]struct {
		size    int
		message bool
		fails   bool
	}{
		"MSG a 1 5\r\n":          {5, true, false},
		"MSG a 1 reply 0\r\n":    {0, true, false},
		"HMSG a 1 r 12 17\r\n":   {17, true, false},
		"msg a 1 5\r\n":          {5, true, false},
		"PING\r\n":               {},
		"INFO {\"a\":1}\r\n":     {},
		"\r\n":                   {},
		"MSG a 1 x\r\n":          {fails: true},
		"MSG a 1 -1\r\n":         {fails: true},
		"MSG a 1 999999999\r\n":  {fails: true},
		"-ERR 'slow consumer'\n": {},
	} {
		size, message, err := payload([]byte(line))
		if size != want.size || message != want.message || (err != nil) != want.fails {
			t.Errorf("%q: %d, %v, %v", line, size, message, err)
		}
	}
}
