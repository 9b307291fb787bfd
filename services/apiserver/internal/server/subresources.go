package server

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/eviction"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/token"
)

// parts returns what serves the special subresources.
func (p *plane) parts(encoder *response.Encoder, accounts *authn.ServiceAccounts) map[rest.Part]rest.Serve {
	core := corev1.SchemeGroupVersion
	return map[rest.Part]rest.Serve{
		{Kind: core.WithKind("Binding")}:                                                           binding.ServeNamed(p.table, p.registry),
		{Subresource: "binding", Kind: core.WithKind("Binding")}:                                   binding.Serve,
		{Subresource: "eviction", Kind: policyv1.SchemeGroupVersion.WithKind("Eviction")}:          eviction.Serve(p.registry),
		{Subresource: "log", Kind: core.WithKind("Pod")}:                                           p.serveLogs(encoder),
		{Subresource: "scale", Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale")}:           scale.Serve,
		{Subresource: "token", Kind: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")}: token.Issuer{Table: p.table, Registry: p.registry, Accounts: accounts}.Serve,
	}
}

// serveLogs returns what serves the logs of pods.
func (p *plane) serveLogs(encoder *response.Encoder) rest.Serve {
	pod := func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
		obj, err := p.registry.Resource(scheme.For[*corev1.Pod](p.table)).Get(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, errors.New("reading a pod: the registry returned another object")
		}
		return pod, nil
	}
	logs := nodeproxy.Logs{Conn: p.link.Conn, Gate: p.gate, Encoder: encoder, Pod: pod}
	return func(c *rest.Call) error {
		w, r := c.HTTP()
		logs.ServeLogs(w, r, c.Request().Namespace, c.Request().Name)
		return nil
	}
}
