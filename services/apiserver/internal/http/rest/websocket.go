package rest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"
)

// The subprotocols of one-way streams over WebSocket. Without one, text formats are sent as text
// messages and others as binary messages.
const (
	binaryProtocol = "binary.k8s.io"
	base64Protocol = "base64.binary.k8s.io"
)

// isWebSocket reports whether a request asks for a WebSocket.
func isWebSocket(r *http.Request) bool {
	upgrade := slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values("Connection"), ","), ","), func(token string) bool {
		return strings.EqualFold(strings.TrimSpace(token), "upgrade")
	})
	return upgrade && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// upgrade upgrades the stream to a WebSocket. Each event is a message, and messages from the client
// are not read. closed ends with ctx and when the client closes the connection; end closes it from
// this side. If upgrade returns an error, it has already sent the response.
func (s *stream) upgrade(ctx context.Context) (closed context.Context, end func(), err error) {
	s.call.w.Header().Set("Content-Type", s.contentType())
	conn, err := websocket.Accept(s.call.w, s.call.r, &websocket.AcceptOptions{
		Subprotocols: []string{binaryProtocol, base64Protocol},
		// As in Kubernetes, pages of any origin may connect: they must present a token, which a
		// browser doesn't add by itself.
		InsecureSkipVerify: true,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("opening a WebSocket: %w", err)
	}
	closed = conn.CloseRead(ctx)
	s.out = &messages{conn: conn, patience: func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(closed, writePatience)
	}}
	return closed, func() { _ = conn.Close(websocket.StatusNormalClosure, "") }, nil
}

// messages sends frames over a WebSocket.
type messages struct {
	conn     *websocket.Conn
	patience func() (context.Context, context.CancelFunc) // bounds one message
	base64   []byte
}

func (m *messages) send(frame frame) error {
	ctx, cancel := m.patience()
	defer cancel()
	switch m.conn.Subprotocol() {
	case base64Protocol:
		m.base64 = base64.StdEncoding.AppendEncode(m.base64[:0], frame.bare)
		return m.conn.Write(ctx, websocket.MessageText, m.base64)
	case binaryProtocol:
		return m.conn.Write(ctx, websocket.MessageBinary, frame.bare)
	}
	kind := websocket.MessageBinary
	if frame.text {
		kind = websocket.MessageText
	}
	return m.conn.Write(ctx, kind, frame.bare)
}

func (m *messages) flush() error { return nil }
