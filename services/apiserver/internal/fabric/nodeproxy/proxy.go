package nodeproxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
)

// agentPort is the port of a node's own API, as in the names of requests to a proxy. Only the agent itself
// can be reached, and no other port of the node.
const agentPort = "10250"

// Proxies serves the subresource proxy of pods, Services and nodes.
type Proxies struct {
	Pods
	// Endpoint returns a pod that serves a Service's port, a name or a number, and the number of its port.
	Endpoint func(ctx context.Context, namespace, name, port string) (pod *corev1.Pod, number string, err error)
	// Dial connects to a port of a pod: that of Nodes.
	Dial func(ctx context.Context, pod *corev1.Pod, port string) (net.Conn, error)
	// HasNode returns an error unless a node exists.
	HasNode func(ctx context.Context, name string) error
}

// Pod serves a request to pods/ID/proxy and what is below it. ID is the pod's name, perhaps with a port
// behind it, and a scheme before it.
func (p Proxies) Pod(w http.ResponseWriter, r *http.Request, namespace, id, below string) error {
	if err := p.Admit(r.Context(), "pods", namespace, id, "proxy", newProxyOptions("PodProxyOptions", below)); err != nil {
		return err
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", id))
	}
	pod, err := p.Pods.Pod(r.Context(), namespace, name)
	if err != nil {
		return err
	}
	if port == "" {
		port = firstPort(pod)
	}
	return p.pass(w, r, pod, scheme, port, below)
}

// firstPort returns the first port that a container of a pod declares; empty if none does.
func firstPort(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
			return fmt.Sprint(ports[0].ContainerPort)
		}
	}
	return ""
}

// Service serves a request to services/ID/proxy and what is below it.
func (p Proxies) Service(w http.ResponseWriter, r *http.Request, namespace, id, below string) error {
	if err := p.Admit(r.Context(), "services", namespace, id, "proxy", newProxyOptions("ServiceProxyOptions", below)); err != nil {
		return err
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", id))
	}
	pod, number, err := p.Endpoint(r.Context(), namespace, name, port)
	if err != nil {
		return err
	}
	return p.pass(w, r, pod, scheme, number, below)
}

// pass passes a request on to a port of a pod, as Kubernetes does: links in pages and redirects lead back
// through the proxy, and a certificate is not checked, since nothing says whose it should be.
func (p Proxies) pass(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, scheme, port, below string) error {
	if address := net.ParseIP(pod.Status.PodIP); address == nil || !address.IsGlobalUnicast() {
		return apierrors.NewBadRequest("address not allowed")
	}
	if scheme == "" {
		scheme = "http"
	}
	host := pod.Status.PodIP
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // As in Kubernetes.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return p.Dial(ctx, pod, port)
		},
	}
	location := &url.URL{Scheme: scheme, Host: host, Path: below}
	handler := proxy.NewUpgradeAwareHandler(location, transport, true, false, responder{p.Pods})
	p.Gate.Until(r, func(r *http.Request) { handler.ServeHTTP(w, r) })
	return nil
}

// responder sends the errors of a proxy.
type responder struct{ Pods }

// Error implements proxy.ErrorResponder.
func (p responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	p.Encoder.Error(w, r, err)
}

// Node serves a request to nodes/ID/proxy and what is below it: the API of the node's agent.
func (p Proxies) Node(w http.ResponseWriter, r *http.Request, id, below string) error {
	if err := p.Admit(r.Context(), "nodes", "", id, "proxy", newProxyOptions("NodeProxyOptions", below)); err != nil {
		return err
	}
	_, name, port, valid := utilnet.SplitSchemeNamePort(id)
	switch {
	case !valid:
		return apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", id))
	case !slices.Contains([]string{"", agentPort}, port):
		return apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q: of a node only its agent can be reached, at port %s", id, agentPort))
	}
	if err := p.HasNode(r.Context(), name); err != nil {
		return err
	}
	if below == "" {
		below = "/"
	}
	p.forward(w, r, name, &url.URL{Scheme: "http", Host: "node", Path: below, RawQuery: r.URL.RawQuery})
	return nil
}
