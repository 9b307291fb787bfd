package access_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestPublishedAuthorities: an API server of others reads which client certificates this one accepts,
// with the role that Kubernetes has for it.
func TestPublishedAuthorities(t *testing.T) {
	t.Parallel()
	further := filepath.Join(t.TempDir(), "further.crt")
	authority, _, err := pki.OpenAuthority(pki.Files{}, further, further+".key", "further")
	if err != nil {
		t.Fatal(err)
	}
	s := harness.New(t, etcdtest.New(t))
	s.Change = func(cfg *apiserver.Config) { cfg.Authentication.ClientCAFile = further }
	s.Start()
	a := &asker{Server: s, t: t, admin: s.Admin()}
	own, err := os.ReadFile(filepath.Join(s.CertDir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	const configMaps, name = "/api/v1/namespaces/kube-system/configmaps", "/extension-apiserver-authentication"
	a.want("alice", http.MethodGet, configMaps+name, "", 403, "")
	a.want("admin", http.MethodPost, rbacPath+"/namespaces/kube-system/rolebindings",
		bindingJSON("RoleBinding", "alice", "Role", "extension-apiserver-authentication-reader", "alice"), 201, "")
	a.until("alice", http.MethodGet, configMaps+name, 200)
	a.want("alice", http.MethodGet, configMaps, "", 403, "")
	a.want("system:kube-scheduler", http.MethodGet, configMaps+name, "", 200, "")
	_, text := a.ask("alice", http.MethodGet, configMaps+name, "")
	var published corev1.ConfigMap
	if err := json.Unmarshal([]byte(text), &published); err != nil {
		t.Fatal(err)
	}
	proxies, err := os.ReadFile(filepath.Join(s.CertDir, "front-proxy-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (map[string]string{
		"client-ca-file": string(own) + string(authority.PEM()), "requestheader-client-ca-file": string(proxies),
		"requestheader-allowed-names": `["front-proxy-client"]`, "requestheader-username-headers": `["X-Remote-User"]`,
		"requestheader-uid-headers": `["X-Remote-Uid"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}); !maps.Equal(published.Data, want) {
		t.Errorf("got  %q\nwant %q", published.Data, want)
	}
	if manager := published.ManagedFields; len(manager) != 1 || manager[0].Manager != "kube-apiserver" {
		t.Errorf("it is managed by %+v", manager)
	}
	a.want("admin", http.MethodGet, configMaps+"/kube-apiserver-legacy-service-account-token-tracking", "", 200, "")
}
