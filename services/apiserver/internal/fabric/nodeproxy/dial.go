package nodeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/nodeapi"
)

// maxRefusal is how much of a node's refusal is read, in bytes.
const maxRefusal = 64 << 10

// Dial connects to a port of a pod through the agent of its node. ctx bounds the dialing, and not the
// connection. The port is a number, which the agent checks.
func (n *Nodes) Dial(ctx context.Context, pod *corev1.Pod, port string) (net.Conn, error) {
	if pod.Spec.NodeName == "" {
		return nil, fmt.Errorf("dialing pod %s/%s: it has no node", pod.Namespace, pod.Name)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("dialing pod %s/%s: %w", pod.Namespace, pod.Name, context.Cause(ctx))
	}
	target := nodeapi.Target{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID)}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, cancel)
	conn, err := n.dial(life, pod.Spec.NodeName, target.URL(nodeapi.Dial, url.Values{nodeapi.Port: {port}}))
	if err == nil && !undo() {
		err = errors.Join(context.Cause(ctx), conn.Close())
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("dialing port %s of pod %s/%s on node %s: %w", port, pod.Namespace, pod.Name, pod.Spec.NodeName, err)
	}
	return &dialed{Conn: conn, end: sync.OnceFunc(cancel)}, nil
}

func (n *Nodes) dial(ctx context.Context, node string, to *url.URL) (bushttp.Conn, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return bushttp.Conn{}, err
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {nodeapi.DialProtocol}}
	response, err := n.To(node).RoundTrip(r)
	if err != nil {
		return bushttp.Conn{}, err
	}
	if conn, ok := response.Body.(bushttp.Conn); ok && response.StatusCode == http.StatusSwitchingProtocols {
		return conn, nil
	}
	said, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return bushttp.Conn{}, fmt.Errorf("reading its refusal: %w", err)
	}
	var status metav1.Status
	if json.Unmarshal(said, &status) == nil && status.Message != "" {
		return bushttp.Conn{}, errors.New(status.Message)
	}
	return bushttp.Conn{}, fmt.Errorf("it answered %s", response.Status)
}

// dialed is a connection whose context ends with it.
type dialed struct {
	bushttp.Conn
	end func()
}

// Close ends the connection.
func (d *dialed) Close() error {
	defer d.end()
	return d.Conn.Close()
}
