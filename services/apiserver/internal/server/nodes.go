package server

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// pods returns what serves the subresources of pods that their nodes serve.
func (p *plane) pods(encoder *response.Encoder) nodeproxy.Pods {
	return nodeproxy.Pods{
		To: p.nodes.To, Gate: p.gate, Encoder: encoder, Pod: p.pod, Admit: p.admitConnection,
		MayCreate: func(ctx context.Context, namespace, name, subresource string) error {
			return p.access.Allow(ctx, authz.Attributes{
				Verb: "create", Version: "v1", Resource: "pods", Subresource: subresource, Namespace: namespace, Name: name,
			})
		},
	}
}

// admitConnection runs the admission plugins on the options of a connection to a subresource of a resource of
// the core group.
func (p *plane) admitConnection(ctx context.Context, resource, namespace, name, subresource string, options scheme.Object) error {
	kind := p.table.Resource(corev1.SchemeGroupVersion.WithResource(resource))
	return p.registry.Resource(kind).Admit(ctx, admission.Connect, namespace, name, subresource, options, false)
}

// pod reads a pod.
func (p *plane) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return p.podAt(ctx, namespace, name, "")
}

// podAt reads a pod that is at least as new as a version.
func (p *plane) podAt(ctx context.Context, namespace, name, version string) (*corev1.Pod, error) {
	obj, err := registry.Of[*corev1.Pod](p.registry).GetAt(ctx, namespace, name, version)
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("reading the pod %s/%s gave a %T", namespace, name, obj)
	}
	return pod, nil
}

// proxies returns what serves the proxies to pods, Services and nodes.
func (p *plane) proxies(pods nodeproxy.Pods) nodeproxy.Proxies {
	return nodeproxy.Proxies{
		Pods: pods, Endpoint: p.endpoints().PodOf, Dial: p.nodes.Dial,
		HasNode: func(ctx context.Context, name string) error {
			_, err := registry.Of[*corev1.Node](p.registry).Get(ctx, "", name)
			return err
		},
	}
}

// byNode returns what serves a subresource that the node of a pod serves.
func byNode(serve func(w http.ResponseWriter, r *http.Request, namespace, name string) error) rest.Serve {
	return func(c *rest.Call) error {
		w, r := c.HTTP()
		return serve(w, r, c.Request().Namespace, c.Request().Name)
	}
}

// proxied returns what serves a proxy and all paths below it.
func proxied(serve func(w http.ResponseWriter, r *http.Request, namespace, id, below string) error) rest.Serve {
	return func(c *rest.Call) error {
		w, r := c.HTTP()
		return serve(w, r, c.Request().Namespace, c.Request().Name, c.Request().Path)
	}
}
