package nodeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/nodeapi"
)

// Dial connects to a port of a pod through the agent of its node. ctx bounds the dialing, and not the
// connection. The port is a number, which the agent checks.
func (n *Nodes) Dial(ctx context.Context, pod *corev1.Pod, port string) (net.Conn, error) {
	if pod.Spec.NodeName == "" {
		return nil, fmt.Errorf("dialing pod %s/%s: it has no node", pod.Namespace, pod.Name)
	}
	target := nodeapi.Target{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID)}
	to := target.URL(nodeapi.Dial, url.Values{nodeapi.Port: {port}})
	conn, err := bushttp.Connect(ctx, patient{n.To(pod.Spec.NodeName)}, to.String(), nodeapi.DialProtocol, nil)
	if err != nil {
		return nil, fmt.Errorf("dialing port %s of pod %s/%s on node %s: %w", port, pod.Namespace, pod.Name, pod.Spec.NodeName, plain(err))
	}
	return conn, nil
}

// plain returns an error with the message of the Status by which a node refused.
func plain(err error) error {
	var refused *bushttp.RefusedError
	var status metav1.Status
	if errors.As(err, &refused) && json.Unmarshal(refused.Body, &status) == nil && status.Message != "" {
		return errors.New(status.Message)
	}
	return err
}
