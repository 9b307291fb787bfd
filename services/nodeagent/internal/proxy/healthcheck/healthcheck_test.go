package healthcheck_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/healthcheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := healthcheck.NewHealth(time.Minute)
		expect := func(want bool) {
			t.Helper()
			if h.Healthy() != want {
				t.Errorf("Healthy = %v", !want)
			}
		}
		expect(true)
		h.Updated(ruleset.IPv4)
		h.Updated(ruleset.IPv6)
		time.Sleep(time.Hour)
		expect(true)
		h.Queued(ruleset.IPv4)
		time.Sleep(59 * time.Second)
		expect(true)
		// A later change does not give the first more time.
		h.Queued(ruleset.IPv4)
		h.Updated(ruleset.IPv6)
		time.Sleep(time.Second)
		expect(false)
		h.Updated(ruleset.IPv4)
		expect(true)
	})
}

var ours = netip.MustParseAddr("127.0.0.1")

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) uint16 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}()
	return netip.MustParseAddrPort(listener.Addr().String()).Port()
}

type answer struct {
	code   int
	header http.Header
	body   map[string]any
}

func get(t *testing.T, port uint16, path string) answer {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	client := http.Client{Transport: transport, Timeout: 5 * time.Second}
	response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return answer{}
	}
	body, err := io.ReadAll(response.Body)
	a := answer{code: response.StatusCode, header: response.Header}
	if err := errors.Join(err, response.Body.Close(), json.Unmarshal(body, &a.body)); err != nil {
		t.Errorf("%s: %v: %q", path, err, body)
	}
	return a
}

func TestServiceHealthPort(t *testing.T) {
	h := healthcheck.NewHealth(0)
	server := healthcheck.New(healthcheck.Config{Health: h, Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	name, port := types.NamespacedName{Namespace: "default", Name: "web"}, freePort(t)
	sync := func(local int) {
		server.Sync(map[types.NamespacedName]healthcheck.Service{name: {Port: port, Local: local}}, []netip.Addr{ours})
	}
	sync(2)
	a := get(t, port, "/")
	service, _ := a.body["service"].(map[string]any)
	if a.code != http.StatusOK || a.header.Get("X-Load-Balancing-Endpoint-Weight") != "2" || a.body["localEndpoints"] != 2.0 ||
		a.body["serviceProxyHealthy"] != true || service["namespace"] != "default" || service["name"] != "web" {
		t.Errorf("with endpoints: %+v", a)
	}
	sync(0)
	if a := get(t, port, "/"); a.code != http.StatusServiceUnavailable || a.header.Get("X-Load-Balancing-Endpoint-Weight") != "0" {
		t.Errorf("without endpoints: %+v", a)
	}
	sync(1)
	h.Updated(ruleset.IPv4)
	h.Queued(ruleset.IPv4)
	if a := get(t, port, "/"); a.code != http.StatusServiceUnavailable || a.body["serviceProxyHealthy"] != false {
		t.Errorf("with an unhealthy proxy: %+v", a)
	}
	other := freePort(t)
	server.Sync(map[types.NamespacedName]healthcheck.Service{name: {Port: other, Local: 1}}, []netip.Addr{ours})
	if a := get(t, port, "/"); a.code != 0 {
		t.Errorf("the former port answers: %+v", a)
	}
	if a := get(t, other, "/"); a.code == 0 {
		t.Error("the new port does not answer")
	}
	server.Sync(nil, []netip.Addr{ours})
	if a := get(t, other, "/"); a.code != 0 {
		t.Errorf("the port of a Service that is gone answers: %+v", a)
	}
}

func TestPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()
	name, failed := types.NamespacedName{Namespace: "default", Name: "web"}, 0
	server := healthcheck.New(healthcheck.Config{Health: healthcheck.NewHealth(time.Minute), Failed: func(service types.NamespacedName, err error) {
		if service == name && err != nil {
			failed++
		}
	}})
	defer server.Close()
	wanted := map[types.NamespacedName]healthcheck.Service{name: {Port: port, Local: 1}}
	server.Sync(wanted, []netip.Addr{ours})
	if failed != 1 {
		t.Errorf("%d failures are reported", failed)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.Sync(wanted, []netip.Addr{ours})
	if a := get(t, port, "/"); a.code != http.StatusOK || failed != 1 {
		t.Errorf("once the port is free: %+v, %d failures", a, failed)
	}
}

func TestProxyHealthPort(t *testing.T) {
	h, eligible, port := healthcheck.NewHealth(0), true, freePort(t)
	registry := prometheus.NewRegistry()
	server := healthcheck.New(healthcheck.Config{
		Address: fmt.Sprintf("127.0.0.1:%d", port), Health: h, Eligible: func() bool { return eligible }, Registerer: registry,
	})
	if err := server.Open(); err != nil {
		t.Fatal(err)
	}
	expect := func(healthz, livez int) {
		t.Helper()
		if a := get(t, port, "/healthz"); a.code != healthz || a.body["nodeEligible"] != eligible {
			t.Errorf("/healthz: %+v, want %d", a, healthz)
		}
		if a := get(t, port, "/livez"); a.code != livez || a.body["lastUpdated"] == nil || a.body["currentTime"] == nil {
			t.Errorf("/livez: %+v, want %d", a, livez)
		}
	}
	h.Updated(ruleset.IPv4)
	expect(200, 200)
	eligible = false
	expect(503, 200)
	h.Queued(ruleset.IPv4)
	expect(503, 503)
	server.Close()
	if a := get(t, port, "/livez"); a.code != 0 {
		t.Errorf("after Close: %+v", a)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 2 || families[0].GetName() != "kubeproxy_proxy_healthz_total" ||
		families[1].GetName() != "kubeproxy_proxy_livez_total" {
		t.Errorf("metrics: %v, %v", families, err)
	}
}

func TestOpenNowhere(t *testing.T) {
	server := healthcheck.New(healthcheck.Config{Health: healthcheck.NewHealth(time.Minute)})
	if err := server.Open(); err != nil {
		t.Error(err)
	}
	server.Close()
	bad := healthcheck.New(healthcheck.Config{Health: healthcheck.NewHealth(time.Minute), Address: "256.0.0.1:1"})
	if err := bad.Open(); err == nil {
		t.Error("an address that is none was opened")
	}
	bad.Close()
}
