package nodeproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

// web is a server in a pod: it tells what it is asked, and has a page and a redirect.
func web(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/page":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<a href="/next">next</a>`)
	case "/moved":
		http.Redirect(w, r, "/next", http.StatusFound)
	default:
		_, _ = fmt.Fprintf(w, "%s %s of %s", r.Method, r.URL, r.Host)
	}
}

func slice(service, port string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: service}}, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: &port, Port: new(int32(8080))}},
	}
}

func endpoint(address string, ready bool, pod string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if pod != "" {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod}
	}
	return e
}

// proxied serves proxies to a pod, web, of which the first part of the path tells the resource.
func proxied(t *testing.T, a *agent) (url string, dialed func() []string) {
	t.Helper()
	of := pod("n1", "c")
	of.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	of.Status = corev1.PodStatus{PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}}}
	local := of.DeepCopy()
	local.Name, local.Status.PodIP = "local", "127.0.0.1"
	plain, secure := httptest.NewServer(http.HandlerFunc(web)), httptest.NewTLSServer(http.HandlerFunc(web))
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	find := func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
		for _, each := range []*corev1.Pod{of, local} {
			if namespace == "default" && name == each.Name {
				return each, nil
			}
		}
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	encoder := response.New(scheme.New(), slog.New(slog.DiscardHandler))
	services := endpoints.Services{
		Pod: find,
		Service: func(_ context.Context, _, name string) (*corev1.Service, error) {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}, nil
		},
		Slices: func(context.Context, string) ([]*discoveryv1.EndpointSlice, error) {
			return []*discoveryv1.EndpointSlice{
				slice("svc", "http", endpoint("10.1.2.9", true, "web"), endpoint("10.1.2.3", false, "web"), endpoint("10.1.2.3", true, "gone"),
					endpoint("10.1.2.4", true, ""), endpoint("10.1.2.3", true, "web")),
				slice("forged", "http", endpoint("169.254.169.254", true, "web"), endpoint("10.1.2.3", true, "")),
			}, nil
		},
	}
	var all []string
	proxies := nodeproxy.Proxies{
		Pods: nodeproxy.Pods{
			Gate: drain.New(), Encoder: encoder, Pod: find,
			To: func(node string) http.RoundTripper {
				a.node = node
				return a
			},
			Admit: func(_ context.Context, resource, _, name, _ string, _ scheme.Object) error {
				if name == "refused" {
					return apierrors.NewForbidden(corev1.Resource(resource), name, errors.New("by admission"))
				}
				return nil
			},
		},
		Endpoint: services.PodOf,
		Dial: func(ctx context.Context, pod *corev1.Pod, port string) (net.Conn, error) {
			all = append(all, pod.Name+":"+port)
			switch port {
			case "8080", "80":
				return (&net.Dialer{}).DialContext(ctx, "tcp", plain.Listener.Addr().String())
			case "443":
				return (&net.Dialer{}).DialContext(ctx, "tcp", secure.Listener.Addr().String())
			}
			return nil, errors.New("nothing listens there")
		},
		HasNode: func(_ context.Context, name string) error {
			if name != "n1" {
				return apierrors.NewNotFound(corev1.Resource("nodes"), name)
			}
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.SplitN(r.URL.Path, "/", 4) // /RESOURCE/ID[/BELOW]
		below := ""
		if len(parts) > 3 {
			below = "/" + parts[3]
		}
		var err error
		switch parts[1] {
		case "pods":
			err = proxies.Pod(w, r, "default", parts[2], below)
		case "services":
			err = proxies.Service(w, r, "default", parts[2], below)
		case "nodes":
			err = proxies.Node(w, r, parts[2], below)
		}
		if err != nil {
			encoder.Error(w, r, err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string { return all }
}

func TestProxies(t *testing.T) {
	for _, test := range []struct {
		method, path string
		code         int
		body, dialed string // a part of the body
	}{
		{"GET", "/pods/web/a/b?c=d", 200, "GET /a/b?c=d of ", "web:8080"},
		{"PATCH", "/pods/web:80/", 200, "PATCH / of ", "web:80"},
		{"OPTIONS", "/pods/http:web:8080/x/", 200, "OPTIONS /x/ of ", "web:8080"},
		{"GET", "/pods/https:web:443/x", 200, "GET /x of ", "web:443"},
		{"GET", "/pods/web", 200, "GET / of ", "web:8080"}, // after a redirect to the path with a slash
		{"GET", "/pods/web/page", 200, `href="/pods/web/next"`, "web:8080"},
		{"GET", "/pods/web/moved", 200, "GET /next of ", "web:8080 web:8080"},
		{"GET", "/pods/web:81/", 503, "error trying to reach service", "web:81"},
		{"GET", "/pods/gone/", 404, `pods \"gone\" not found`, ""},
		{"GET", "/pods/local/", 400, "address not allowed", ""},
		{"GET", "/pods/a:b:c:d/", 400, "invalid pod request", ""},
		{"GET", "/pods/refused/", 403, "by admission", ""},
		{"GET", "/services/svc:http/a", 200, "GET /a of ", "web:8080"},
		{"POST", "/services/http:svc:80/a", 200, "POST /a of ", "web:8080"},
		{"GET", "/services/svc:81/a", 503, `no service port 81 found for service \"svc\"`, ""},
		{"GET", "/services/svc:other/a", 503, `no endpoints available for service \"svc\"`, ""},
		{"GET", "/services/forged:http/a", 503, `no endpoints available for service \"forged\"`, ""},
		{"GET", "/services/refused/", 403, "by admission", ""},
		{"GET", "/nodes/n1:22/", 400, "only its agent can be reached", ""},
		{"GET", "/nodes/n2/pods", 404, `nodes \"n2\" not found`, ""},
		{"GET", "/nodes/n1/pods?x=y", 200, "asked GET http://node/pods?x=y", ""},
		{"POST", "/nodes/n1:10250", 200, "asked POST http://node/", ""},
	} {
		t.Run(test.method+test.path, func(t *testing.T) {
			url, dialed := proxied(t, &agent{answer: func(r *http.Request) (*http.Response, error) {
				return says(200, nil, "asked "+r.Method+" "+r.URL.String())(r)
			}})
			code, body, _ := request(t, test.method, url+test.path)
			if code != test.code || !strings.Contains(body, test.body) {
				t.Errorf("got %d %q, want %d %q", code, body, test.code, test.body)
			}
			if got := dialed(); !slices.Equal(got, strings.Fields(test.dialed)) {
				t.Errorf("dialed %q, want %q", got, test.dialed)
			}
		})
	}
}
