// Package upgradetest checks that upgraded connections are passed on to another server.
package upgradetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Echo is the other server. It accepts every upgrade, tells who the user is, and sends back what it gets.
func Echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "%s %s\n", r.Header.Get("X-Remote-User"), r.Header.Get("X-Remote-Group"))
	_, _ = io.Copy(conn, buffered)
}

// Check upgrades a connection to the server at a plain URL, which passes it on to Echo as jane of devs, although the
// client says that it is another user.
func Check(t *testing.T, url, path string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
	defer stop()
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n"+
		"X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", response, err)
	}
	defer func() { _ = response.Body.Close() }()
	if line, err := reader.ReadString('\n'); line != "jane devs\n" {
		t.Errorf("the server heard %q, %v", line, err)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := reader.ReadString('\n'); line != "hello\n" {
		t.Errorf("got back %q, %v", line, err)
	}
}
