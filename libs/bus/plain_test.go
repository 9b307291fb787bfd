package bus_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
)

const plainRefused = "is on another machine: without TLS, tokens and Secrets can be read on the way: " +
	"use tls:// and the authority of NATS (--nats-ca-file), or --nats-insecure if no one else uses that network"

// TestPlainServersElsewhere checks that the client does not connect to a server on another machine
// without TLS unless that is allowed, and that the error names the remedy. The test opens no
// connection.
func TestPlainServersElsewhere(t *testing.T) {
	pem := certify(t, t.TempDir()+"/tls.crt", t.TempDir()+"/tls.key")
	for name, c := range map[string]struct {
		cfg     bus.Config
		refused string
	}{
		"IPv4":                      {bus.Config{URLs: []string{"nats://10.0.0.1:4222"}}, "nats://10.0.0.1:4222"},
		"without a scheme":          {bus.Config{URLs: []string{"10.0.0.1:4222"}}, "nats://10.0.0.1:4222"},
		"in capitals":               {bus.Config{URLs: []string{"NATS://10.0.0.1:4222"}}, "NATS://10.0.0.1:4222"},
		"WebSocket":                 {bus.Config{URLs: []string{"ws://10.0.0.1:80"}}, "ws://10.0.0.1:80"},
		"IPv6":                      {bus.Config{URLs: []string{"nats://[fd00::1]:4222"}}, "nats://[fd00::1]:4222"},
		"all addresses":             {bus.Config{URLs: []string{"nats://0.0.0.0:4222"}}, "nats://0.0.0.0:4222"},
		"a host name":               {bus.Config{URLs: []string{"nats://nats:4222"}}, "nats://nats:4222"},
		"a name like an address":    {bus.Config{URLs: []string{"nats://127.0.0.1.example.com"}}, "nats://127.0.0.1.example.com"},
		"a user like an address":    {bus.Config{URLs: []string{"nats://127.0.0.1:4222@nats"}}, "nats://xxxxx@nats"},
		"a password":                {bus.Config{URLs: []string{"nats://jane:secret@nats"}}, "nats://xxxxx@nats"},
		"the second in a list":      {bus.Config{URLs: []string{"nats://127.0.0.1:1, nats://nats:1"}}, "nats://nats:1"},
		"the second URL":            {bus.Config{URLs: []string{"nats://127.0.0.1:1", "nats://nats:1"}}, "nats://nats:1"},
		"only a client certificate": {bus.Config{URLs: []string{"nats://nats:1"}, Cert: pem, Key: pem}, "nats://nats:1"},
		"allowed":                   {bus.Config{URLs: []string{"nats://nats.invalid:1"}, Insecure: true}, ""},
		"TLS":                       {bus.Config{URLs: []string{"tls://nats.invalid:1"}}, ""},
		"TLS for one URL":           {bus.Config{URLs: []string{"nats://nats.invalid:1,tls://nats.invalid:2"}}, ""},
		"a CA":                      {bus.Config{URLs: []string{"nats://nats.invalid:1"}, CA: pem}, ""},
		"127.0.0.1":                 {bus.Config{URLs: []string{"nats://127.0.0.1:1"}}, ""},
		"127/8":                     {bus.Config{URLs: []string{"127.8.9.1:1"}}, ""},
		"::1":                       {bus.Config{URLs: []string{"nats://[::1]:1"}}, ""},
		"IPv4 in IPv6":              {bus.Config{URLs: []string{"nats://[::ffff:127.0.0.1]:1"}}, ""},
		"localhost":                 {bus.Config{URLs: []string{"nats://LocalHost:1"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Name = "test"
			conn, err := bus.Dial(c.cfg)
			if err == nil {
				conn.Close()
			}
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused with %v", err)
			case c.refused != "" && (err == nil || err.Error() != "connecting to NATS: "+c.refused+" "+plainRefused):
				t.Errorf("got %v", err)
			}
		})
	}
}

// namesOfClients answers NATS clients that connect to a listener like a server, and returns the
// names that they announce, until the listener is closed.
func namesOfClients(listener net.Listener) <-chan string {
	names := make(chan string, 1000)
	go func() {
		defer close(names)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.WriteString(conn, "INFO {\"server_id\":\"x\",\"max_payload\":1048576}\r\n")
			line, _ := bufio.NewReader(conn).ReadString('\n')
			_ = conn.Close()
			_, said, _ := strings.Cut(line, `"name":"`)
			name, _, _ := strings.Cut(said, `"`)
			select {
			case names <- name:
			default:
			}
		}
	}()
	return names
}

// TestPlainServersThatAServerNames checks that a server on this machine that announces others does
// not lead its clients to another machine, unless that is allowed.
func TestPlainServersThatAServerNames(t *testing.T) {
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := namesOfClients(other)
	defer func() {
		_ = other.Close()
		for range came {
		}
	}()
	_, port, err := net.SplitHostPort(other.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The address is not a loopback address but leads to this machine. A server announces another
	// one only if there are two.
	server := bustest.NewClusterWith(t, 2, fmt.Sprintf("client_advertise: %q", "0.0.0.0:"+port))[0]
	keeps := server.ConnectAs(bus.Config{Name: "keeps", MaxReconnectDelay: 20 * time.Millisecond})
	goes := server.ConnectAs(bus.Config{Name: "goes", MaxReconnectDelay: 20 * time.Millisecond, Insecure: true})
	for end := time.Now().Add(2 * time.Minute); ; {
		server.Stop()
		gone := false
		for wait := time.After(time.Second); wait != nil; {
			select {
			case name := <-came:
				if gone = true; name == "keeps" {
					t.Fatal("the restricted client connected to another machine")
				}
			case <-wait:
				wait = nil
			}
		}
		if gone {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the unrestricted client did not connect to the other machine")
		}
		server.Start()
		within(t, "the clients to come back", func() bool { return keeps.Connected() && goes.Connected() })
	}
}
