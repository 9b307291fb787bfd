package replicas_test

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// startPeers starts two servers that know each other. The newer one serves two kinds that the other does not have:
// gadgets, of a version of their own, and gizmos, of a version of which both have the rest.
func startPeers(t *testing.T) (newer, older *harness.Server) {
	t.Helper()
	newer = harness.New(t, etcdtest.New(t))
	older = &harness.Server{T: t, CertDir: newer.CertDir, Etcd: newer.Etcd, Bus: newer.Bus}
	var catalog *kinds.Catalog
	change := func(name string) func(*apiserver.Config) {
		return func(cfg *apiserver.Config) {
			ip, port, err := net.SplitHostPort(cfg.Serving.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			cfg.Serving.PeerAdvertiseIP, cfg.Serving.PeerAdvertisePort = ip, port
			cfg.Serving.PeerCAFile, cfg.Hostname = filepath.Join(newer.CertDir, "ca.crt"), name
			if name == "newer" {
				cfg.Catalog = func(c *kinds.Catalog) { catalog = c }
			}
		}
	}
	newer.Change, older.Change = change("newer"), change("older")
	newer.Start()
	gizmo := gadgetDefinition()
	gizmo.GroupVersionKind, gizmo.Storage = gizmos.GroupVersion().WithKind("Gizmo"), gizmos.GroupVersion().WithKind("Gizmo")
	gizmo.Resource, gizmo.Singular, gizmo.ShortNames, gizmo.StoragePrefix = gizmos.Resource, "gizmo", nil, "apps/gizmos"
	if err := catalog.Install(gadgetDefinition(), gizmo); err != nil {
		t.Fatal(err)
	}
	older.Start()
	return newer, older
}

var gizmos = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "gizmos"}

// shows reports whether a server's discovery lists both kinds: in the old documents, and in the aggregated one.
func shows(s *harness.Server, accept string) (old, whole bool) {
	read := func(path, accept string) string {
		_, body := s.Exchange(s.Admin(), http.MethodGet, path, "", map[string]string{"Accept": accept})
		return body
	}
	const plain = "application/json"
	all := read("/apis", accept)
	return strings.Contains(read("/apis", plain), `"example.org/v1"`) && strings.Contains(read("/apis/example.org/v1", plain), `"gadgets"`) &&
			strings.Contains(read("/apis/apps/v1", plain), `"gizmos"`),
		strings.Contains(all, `"gadgets"`) && strings.Contains(all, `"gizmos"`)
}

// TestPeers uses kinds through an apiserver that does not have them, as clients do while a plane is upgraded.
func TestPeers(t *testing.T) {
	t.Parallel()
	newer, older := startPeers(t)
	harness.Eventually(t, "the older server shows what only the newer one serves", func() bool {
		old, whole := shows(older, aggregated)
		return old && whole
	})
	if _, whole := shows(older, aggregated+";profile=nopeer"); whole {
		t.Error("the older server tells its peers that it serves what they do")
	}
	client, err := dynamic.NewForConfig(older.Admin())
	if err != nil {
		t.Fatal(err)
	}
	ctx, things := t.Context(), client.Resource(gadgets).Namespace("default")
	watch, err := things.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := things.Create(ctx, newGadget("g", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-watch.ResultChan():
		if found, ok := event.Object.(*unstructured.Unstructured); !ok || found.GetName() != "g" {
			t.Errorf("the watch got %v", event)
		}
	case <-time.After(harness.Patience):
		t.Error("the watch gets nothing")
	}
	if list, err := client.Resource(gizmos).List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("listing a resource of a version that the server has in part: %v, %v", list, err)
	}
	poor := rest.CopyConfig(older.Admin())
	poor.Impersonate.UserName = "poor"
	if client, err = dynamic.NewForConfig(poor); err != nil {
		t.Fatal(err)
	}
	_, err = client.Resource(gadgets).Namespace("default").Get(ctx, "g", metav1.GetOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"poor"`) {
		t.Errorf("a user without rights got %v", err)
	}
	for path, header := range map[string]map[string]string{
		"/apis/example.org/v1/gadgets": {"X-Kubernetes-Peer-Proxied": "true"}, // It was passed on before.
		"/apis/example.org/v9/gadgets": nil,
		"/apis/example.org/v1/others":  nil,
		"/apis/apps/v1/others":         nil,
	} {
		if res, body := older.Exchange(older.Admin(), http.MethodGet, path, "", header); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
	}
	newer.Stop()
	harness.Eventually(t, "the older server no longer shows what the newer one served", func() bool {
		old, whole := shows(older, aggregated)
		return !old && !whole
	})
	if res, body := older.Exchange(older.Admin(), http.MethodGet, "/apis/example.org/v1/gadgets", "", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("without the newer server: %s %s", res.Status, body)
	}
}
