package server

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

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
	core, pods := corev1.SchemeGroupVersion, p.pods(encoder)
	proxies := p.proxies(pods)
	return map[rest.Part]rest.Serve{
		{Kind: core.WithKind("Binding")}:                                                  binding.ServeNamed(p.table, p.registry),
		{Subresource: "binding", Kind: core.WithKind("Binding")}:                          binding.Serve,
		{Subresource: "eviction", Kind: policyv1.SchemeGroupVersion.WithKind("Eviction")}: eviction.Serve(p.registry),
		{Subresource: "attach", Kind: core.WithKind("PodAttachOptions")}:                  byNode(pods.Attach),
		{Subresource: "exec", Kind: core.WithKind("PodExecOptions")}:                      byNode(pods.Exec),
		{Subresource: "log", Kind: core.WithKind("Pod")}:                                  byNode(pods.Logs),
		{Subresource: "portforward", Kind: core.WithKind("PodPortForwardOptions")}:        byNode(pods.PortForward),
		{Subresource: "proxy", Kind: core.WithKind("NodeProxyOptions")}: func(c *rest.Call) error {
			w, r := c.HTTP()
			return proxies.Node(w, r, c.Request().Name, c.Request().Path)
		},
		{Subresource: "proxy", Kind: core.WithKind("PodProxyOptions")}:                             proxied(proxies.Pod),
		{Subresource: "proxy", Kind: core.WithKind("ServiceProxyOptions")}:                         proxied(proxies.Service),
		{Subresource: "scale", Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale")}:           scale.Serve,
		{Subresource: "token", Kind: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")}: token.Issuer{Table: p.table, Registry: p.registry, Accounts: accounts}.Serve,
	}
}
