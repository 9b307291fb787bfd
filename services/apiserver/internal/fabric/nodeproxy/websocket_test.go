package nodeproxy_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/garboard/garboard/libs/bus/bushttp"
)

// logs opens the log of the pod web over a WebSocket.
func logs(t *testing.T, at string, protocols ...string) (*websocket.Conn, error) {
	t.Helper()
	config, err := websocket.NewConfig(strings.Replace(at, "http", "ws", 1)+"/log/web?follow=true", "http://localhost")
	if err != nil {
		t.Fatal(err)
	}
	config.Protocol = protocols
	conn, err := config.DialContext(t.Context())
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

func TestLogOverWebSocket(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 10_000)
	for name, protocols := range map[string][]string{
		"no protocol": nil, "bytes": {"binary.k8s.io"}, "base64": {"base64.binary.k8s.io"}, "the known one": {"other", "binary.k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{answer: says(200, nil, large)}
			at, _ := serve(t, a, pod("n1", "c"))
			conn, err := logs(t, at, protocols...)
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			for first := true; ; first = false {
				var message []byte
				if err := websocket.Message.Receive(conn, &message); err != nil {
					break
				}
				if first && len(message) > 0 {
					t.Errorf("the first message has %d bytes", len(message))
				}
				if name == "base64" {
					if message, err = base64.StdEncoding.DecodeString(string(message)); err != nil {
						t.Fatal(err)
					}
				}
				got = append(got, message...)
			}
			if string(got) != large {
				t.Errorf("got %d bytes, want %d", len(got), len(large))
			}
			if a.request.URL.RequestURI() != "/containerLogs/default/web/c?follow=true&uid=u1" || len(a.request.Header) > 0 {
				t.Errorf("the node was asked for %s with %v", a.request.URL, a.request.Header)
			}
		})
	}
	for name, c := range map[string]struct {
		answer    func(*http.Request) (*http.Response, error)
		protocols []string
	}{
		"an unknown protocol": {says(200, nil, large), []string{"v5.channel.k8s.io"}},
		"the node refuses":    {says(400, nil, "no such container"), nil},
		"no agent":            {fails(fmt.Errorf("calling: %w", bushttp.ErrNoServer)), nil},
	} {
		at, _ := serve(t, &agent{answer: c.answer}, pod("n1", "c"))
		if _, err := logs(t, at, c.protocols...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLogOverWebSocketEnds checks that the request to the node ends with the client, and with the server.
func TestLogOverWebSocketEnds(t *testing.T) {
	for _, draining := range []bool{false, true} {
		t.Run(fmt.Sprintf("draining %t", draining), func(t *testing.T) {
			ended := make(chan struct{})
			at, gate := serve(t, &agent{answer: func(r *http.Request) (*http.Response, error) {
				reader, writer := io.Pipe()
				context.AfterFunc(r.Context(), func() {
					_ = writer.CloseWithError(context.Canceled)
					close(ended)
				})
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: reader, Request: r, ContentLength: -1}, nil
			}}, pod("n1", "c"))
			conn, err := logs(t, at)
			if err != nil {
				t.Fatal(err)
			}
			if draining {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				gate.EndWatches(ctx, time.Millisecond)
			} else if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("the request to the node goes on")
			}
			for draining {
				var message []byte
				if err := websocket.Message.Receive(conn, &message); err != nil {
					break
				}
			}
		})
	}
}
