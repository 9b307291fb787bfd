package nodeproxy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The protocols of a log over a WebSocket: messages of bytes, and texts that are their base64 (k8s.io/streaming,
// wsstream.Reader, which does not return if a client asks for another one).
const (
	binaryProtocol = "binary.k8s.io"
	base64Protocol = "base64.binary.k8s.io"
)

// maxMessage bounds a message, in bytes of the log.
const maxMessage = 32 << 10

// logOverWebSocket sends a client the log that the agent of a node serves. It returns an error if the node does not
// serve it; nothing was sent then.
func (p Pods) logOverWebSocket(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, to *url.URL) error {
	var err error
	p.Gate.Until(r, func(r *http.Request) {
		// The client's end must end the request to the node.
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		var body io.ReadCloser
		if body, err = p.log(ctx, pod, to); err != nil {
			return
		}
		defer func() { _ = body.Close() }()
		websocket.Server{Handshake: negotiate, Handler: func(conn *websocket.Conn) {
			read := make(chan struct{})
			go func() {
				defer close(read)
				_, _ = io.Copy(io.Discard, conn) // until the client, or this end, closes the connection
				cancel()
			}()
			defer func() {
				_ = conn.Close()
				<-read
			}()
			_ = sendLog(conn, body) // The log or its reader has ended.
		}}.ServeHTTP(w, r)
	})
	return err
}

// maxRefusal is how much of a node's refusal is read, in bytes.
const maxRefusal = 64 << 10

// log opens a log at the agent of a pod's node.
func (p Pods) log(ctx context.Context, pod *corev1.Pod, to *url.URL) (io.ReadCloser, error) {
	request := (&http.Request{Method: http.MethodGet, URL: to, Header: http.Header{}}).WithContext(ctx)
	response, err := patient{p.To(pod.Spec.NodeName)}.RoundTrip(request)
	if err != nil {
		return nil, unreachable(pod.Spec.NodeName, err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, unreachable(pod.Spec.NodeName, err)
	}
	return nil, apierrors.NewGenericServerResponse(response.StatusCode, "get", corev1.Resource("pods/log"), pod.Name, strings.TrimSpace(string(text)), 0, true)
}

// negotiate chooses the first protocol of a client that is known; the one of bytes if the client names none.
func negotiate(config *websocket.Config, _ *http.Request) error {
	known := []string{"", binaryProtocol, base64Protocol}
	wanted := config.Protocol
	if len(wanted) == 0 {
		wanted = known[:1]
	}
	for _, one := range wanted {
		if slices.Contains(known, one) {
			config.Protocol = []string{one}
			return nil
		}
	}
	return fmt.Errorf("requested protocol(s) are not supported: %v; supports %v", config.Protocol, known)
}

// sendLog sends a log in messages, of which the first is empty, as Kubernetes' is.
func sendLog(conn *websocket.Conn, from io.Reader) error {
	send := func(part []byte) error { return websocket.Message.Send(conn, part) }
	if slices.Equal(conn.Config().Protocol, []string{base64Protocol}) {
		send = func(part []byte) error { return websocket.Message.Send(conn, base64.StdEncoding.EncodeToString(part)) }
	}
	if err := send([]byte{}); err != nil {
		return err
	}
	buffer := make([]byte, maxMessage)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := send(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
