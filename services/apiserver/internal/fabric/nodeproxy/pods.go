package nodeproxy

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

// Pods serves the subresources of pods that the agents of their nodes serve.
type Pods struct {
	// Pod reads a pod.
	Pod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// To returns the round tripper to the agent of a node: that of Nodes.
	To func(node string) http.RoundTripper
	// MayCreate returns an error unless the caller may also create the subresource. A client of
	// WebSockets can only send GET, which would otherwise need the right to read alone (Kubernetes,
	// AuthorizePodWebsocketUpgradeCreatePermission).
	MayCreate func(ctx context.Context, namespace, name, subresource string) error
	// Admit runs the admission plugins on the options of a connection, which they may change.
	Admit func(ctx context.Context, resource, namespace, name, subresource string, options scheme.Object) error
	// Gate ends what is in flight when the server shuts down.
	Gate *drain.Gate
	// Encoder sends errors to clients.
	Encoder *response.Encoder
}

// Logs serves GET pods/NAME/log.
func (p Pods) Logs(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	opts, err := ParseLogOptions(name, r.URL.Query())
	if err != nil {
		return err
	}
	pod, err := p.Pod(r.Context(), namespace, name)
	if err != nil {
		return err
	}
	container, err := chooseContainer(pod, opts.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" { // It has logged nothing yet.
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusOK)
		return nil
	}
	target := nodeapi.Target{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID), Container: container}
	to := target.URL(nodeapi.ContainerLogs, nodeapi.LogQuery(opts))
	if wsstream.IsWebSocketRequest(r) {
		return p.logOverWebSocket(w, r, pod, to)
	}
	w.Header().Set("Cache-Control", "no-cache, private")
	p.forward(w, r, pod.Spec.NodeName, to)
	return nil
}

// Exec serves pods/NAME/exec.
func (p Pods) Exec(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	return p.connect(w, r, connection{namespace, name, "exec", nodeapi.Exec, newExecOptions})
}

// Attach serves pods/NAME/attach.
func (p Pods) Attach(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	return p.connect(w, r, connection{namespace, name, "attach", nodeapi.Attach, newAttachOptions})
}

// PortForward serves pods/NAME/portforward.
func (p Pods) PortForward(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	return p.connect(w, r, connection{namespace, name, "portforward", nodeapi.PortForward, newPortForwardOptions})
}

// connection is what a client wants to be connected to.
type connection struct {
	namespace, name, subresource string
	verb                         string // of the node agent
	options                      func(query url.Values) (options, error)
}

// connect connects a client to what the agent of a pod's node serves.
func (p Pods) connect(w http.ResponseWriter, r *http.Request, to connection) error {
	if r.Method != http.MethodPost {
		if err := p.MayCreate(r.Context(), to.namespace, to.name, to.subresource); err != nil {
			return err
		}
	}
	opts, err := to.options(r.URL.Query())
	if err != nil {
		return err
	}
	if err := p.Admit(r.Context(), "pods", to.namespace, to.name, to.subresource, opts); err != nil {
		return err
	}
	pod, err := p.Pod(r.Context(), to.namespace, to.name)
	if err != nil {
		return err
	}
	target := nodeapi.Target{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID)}
	if to.verb != nodeapi.PortForward {
		if target.Container, err = chooseContainer(pod, opts.container()); err != nil {
			return err
		}
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", to.name))
	}
	p.forward(w, r, pod.Spec.NodeName, target.URL(to.verb, opts.query()))
	return nil
}
