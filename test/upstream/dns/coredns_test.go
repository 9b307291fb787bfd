package upstreamdns

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	// The plugins of kubeadm's Corefile, as far as they answer questions.
	_ "github.com/coredns/coredns/plugin/autopath"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/metrics"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// startCoreDNS starts CoreDNS with the plugins of a Corefile, and returns its address.
func startCoreDNS(t testing.TB, plugins string) string {
	t.Helper()
	caddy.Quiet, dnsserver.Quiet = true, true
	port := freePort(t)
	corefile := fmt.Sprintf(".:%d {\n bind 127.0.0.1\n %s\n}\n", port, plugins)
	instance, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), ServerTypeName: "dns"})
	if err != nil {
		t.Fatalf("starting CoreDNS: %v", err)
	}
	t.Cleanup(func() {
		instance.ShutdownCallbacks()
		if err := instance.Stop(); err != nil {
			t.Error(err)
		}
	})
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// freePort returns a port that nothing uses, over UDP and TCP.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		addr := listener.Addr().(*net.TCPAddr)
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: addr.IP, Port: addr.Port})
		_ = listener.Close()
		if err == nil {
			_ = conn.Close()
			return addr.Port
		}
	}
	t.Fatal("no port is free over UDP and TCP")
	return 0
}

// serveAPI serves objects as an apiserver does, and never changes them. It returns the URL.
func serveAPI(t testing.TB, objects []scheme.Object) string {
	t.Helper()
	lists := map[string][]scheme.Object{}
	for _, object := range objects {
		path := pathOf(object)
		lists[path] = append(lists[path], object)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		items := lists[r.URL.Path]
		if r.URL.Query().Get("watch") == "" {
			kind, version := kindOf(r.URL.Path)
			if items == nil {
				items = []scheme.Object{}
			}
			_ = encoder.Encode(map[string]any{
				"kind": kind + "List", "apiVersion": version, "metadata": metav1.ListMeta{ResourceVersion: "1"}, "items": items,
			})
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			for _, item := range items {
				_ = encoder.Encode(map[string]any{"type": "ADDED", "object": item})
			}
			kind, version := kindOf(r.URL.Path)
			_ = encoder.Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{
				"kind": kind, "apiVersion": version, "metadata": map[string]any{
					"resourceVersion": "1", "annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				},
			}})
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

func pathOf(object scheme.Object) string {
	switch kind := object.GetObjectKind().GroupVersionKind().Kind; kind {
	case "EndpointSlice":
		return "/apis/discovery.k8s.io/v1/endpointslices"
	default:
		return "/api/v1/" + strings.ToLower(kind) + "s"
	}
}

func kindOf(path string) (kind, version string) {
	return map[string]string{"services": "Service", "pods": "Pod", "namespaces": "Namespace", "endpointslices": "EndpointSlice"}[path[strings.LastIndexByte(path, '/')+1:]],
		map[bool]string{true: "v1", false: "discovery.k8s.io/v1"}[strings.HasPrefix(path, "/api/v1/")]
}
