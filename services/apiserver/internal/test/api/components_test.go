package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestComponents reads the status of the plane: etcd answers, and leaders renew their leases.
func TestComponents(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	js := map[string]string{"Content-Type": "application/json"}
	if res, body := s.Exchange(admin, "POST", "/api/v1/namespaces", `{"metadata":{"name":"kube-system"}}`, js); res.StatusCode != 201 && res.StatusCode != 409 {
		t.Fatal(body)
	}
	lease := func(name string, renewed time.Time) {
		t.Helper()
		body := fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"holderIdentity":"me","leaseDurationSeconds":3600,"renewTime":%q}}`, name, renewed.UTC().Format("2006-01-02T15:04:05.000000Z"))
		if res, answer := s.Exchange(admin, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", body, js); res.StatusCode != 201 {
			t.Fatal(answer)
		}
	}
	get := func(path, accept string) (string, string) {
		t.Helper()
		res, body := s.Exchange(admin, "GET", path, "", map[string]string{"Accept": accept})
		return body, strings.Join(res.Header.Values("Warning"), " ")
	}
	const all, table = "/api/v1/componentstatuses", "application/json;as=Table;g=meta.k8s.io;v=v1"
	var warning string
	harness.Await(t, "etcd to answer in time", func() error {
		var body string
		body, warning = get(all, "application/json")
		for _, text := range []string{
			`"kind":"ComponentStatusList"`, `{"metadata":{"name":"etcd-0"},"conditions":[{"type":"Healthy","status":"True","message":"ok"}]}`,
			`no leader so far: there is no lease kube-system/kube-scheduler`,
		} {
			if !strings.Contains(body, text) {
				return fmt.Errorf("%s is not in %s", text, body)
			}
		}
		return nil
	})
	if !strings.Contains(warning, "v1 ComponentStatus is deprecated in v1.19+") {
		t.Errorf("got warnings %q", warning)
	}
	lease("kube-scheduler", time.Now())
	lease("kube-controller-manager", time.Now().Add(-2*time.Hour))
	for what, want := range map[string][]string{
		all:                {`"cells":["scheduler","Healthy","ok",""]`, `"cells":["controller-manager","Unhealthy","no leader: me has not renewed the lease since `, `"cells":["etcd-0","Healthy","ok",""]`},
		all + "/scheduler": {`"cells":["scheduler","Healthy","ok",""]`},
		all + "?fieldSelector=metadata.name%3Detcd-0": {`"rows":[{"cells":["etcd-0","Healthy","ok",""]`},
	} {
		harness.Await(t, what, func() error {
			body, _ := get(what, table)
			for _, text := range want {
				if !strings.Contains(body, text) {
					return fmt.Errorf("%s is not in %s", text, body)
				}
			}
			return nil
		})
	}
	for path, code := range map[string]int{all + "/nobody": 404, all + "?watch=true": 405, all + "?labelSelector=%3D%3D": 400} {
		if res, body := s.Exchange(admin, "GET", path, "", nil); res.StatusCode != code {
			t.Errorf("%s: got %d %s", path, res.StatusCode, body)
		}
	}
	if res, body := s.Exchange(admin, "DELETE", all, "", nil); res.StatusCode != 405 {
		t.Errorf("DELETE: got %d %s, want 405", res.StatusCode, body)
	}
}
