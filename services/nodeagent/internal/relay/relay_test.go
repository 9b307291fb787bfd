package relay_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/nodeagent/internal/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns the two ends of a TCP connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if near, err = net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr)); err != nil {
		t.Fatal(err)
	}
	if far, err = listener.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

// TestHalfClose: the end of what a client says is passed on, and the answer still comes.
func TestHalfClose(t *testing.T) {
	client, clientHere := pair(t)
	server, serverHere := pair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay.Both(serverHere, clientHere, io.MultiReader(strings.NewReader("early, "), clientHere))
	}()
	if _, err := io.WriteString(client, "late"); err != nil {
		t.Fatal(err)
	}
	_ = client.CloseWrite()
	if said, err := io.ReadAll(server); err != nil || string(said) != "early, late" {
		t.Errorf("the server reads %q, %v", said, err)
	}
	if _, err := io.WriteString(server, "answer"); err != nil {
		t.Fatal(err)
	}
	_ = server.CloseWrite()
	if answer, err := io.ReadAll(client); err != nil || string(answer) != "answer" {
		t.Errorf("the client reads %q, %v", answer, err)
	}
	<-done
}

// TestWithoutHalves: a connection that cannot end one direction ends with the other's end.
func TestWithoutHalves(t *testing.T) {
	client, clientHere := net.Pipe()
	server, serverHere := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay.Both(serverHere, clientHere, clientHere)
	}()
	go func() { _, _ = io.WriteString(client, "bye\n"); _ = client.Close() }()
	if line, err := bufio.NewReader(server).ReadString('\n'); err != nil || line != "bye\n" {
		t.Errorf("the server reads %q, %v", line, err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the client's end the server reads %v", err)
	}
	<-done
}

// TestError: the loss of one connection ends both.
func TestError(t *testing.T) {
	client, clientHere := pair(t)
	server, serverHere := pair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay.Both(serverHere, clientHere, clientHere)
	}()
	_ = client.SetLinger(0)
	_ = client.Close() // It resets the connection.
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("the server's connection is open")
	}
	<-done
}
