package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestConfiguredAdmission starts an apiserver with plugins that are off by default and a configuration
// file, and checks that requests meet them.
func TestConfiguredAdmission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"admission.yaml": `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  path: events.yaml
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline}
    exemptions: {namespaces: [exempt]}
- name: PodNodeSelector
  configuration: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: pool=shared}}
`,
		"events.yaml": "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: [{type: Namespace, qps: 1, burst: 1}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := harness.StartWith(t, func(cfg *apiserver.Config) {
		cfg.Admission = apiserver.Admission{
			Enable:     []string{"EventRateLimit", "PodNodeSelector", "NamespaceAutoProvision", "DenyServiceExternalIPs"},
			Disable:    []string{"ServiceAccount"},
			ConfigFile: filepath.Join(dir, "admission.yaml"),
		}
	})
	admin := s.Admin()
	const ordinary, privileged = `"containers":[{"name":"c","image":"i"}]`, `"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]`
	pod := func(name, spec string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`
	}
	event := func(name, namespace string) string {
		return `{"apiVersion":"v1","kind":"Event","metadata":{"name":"` + name + `","namespace":"` + namespace + `"},"involvedObject":{"namespace":"` + namespace + `"}}`
	}
	const core = "/api/v1/namespaces/"
	for _, tc := range []struct {
		name, method, path, body string
		code                     int
		says                     string
	}{
		{"a new namespace", "POST", core + "fresh/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`, 201, `"namespace":"fresh"`},
		{"it is there", "GET", core + "fresh", "", 200, `"phase":"Active"`},
		{"the default selector", "POST", core + "fresh/pods", pod("p", ordinary), 201, `"nodeSelector":{"pool":"shared"}`},
		{"another selector", "POST", core + "fresh/pods", pod("q", `"nodeSelector":{"pool":"own"},`+ordinary), 403, "pod node label selector conflicts with its namespace node label selector"},
		{"the default standard", "POST", core + "fresh/pods", pod("q", privileged), 403, `violates PodSecurity \"baseline:latest\": privileged`},
		{"an exempt namespace", "POST", core + "exempt/pods", pod("q", privileged), 201, `"privileged":true`},
		{"an external IP", "POST", core + "fresh/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80}],"externalIPs":["1.1.1.1"]}}`, 403, "Use of external IPs is denied"},
		{"an event", "POST", core + "calm/events", event("a", "calm"), 201, `"name":"a"`},
		{"an event elsewhere", "POST", core + "other/events", event("a", "other"), 201, `"name":"a"`},
	} {
		res, body := s.Exchange(admin, tc.method, tc.path, tc.body, map[string]string{"Content-Type": "application/json"})
		if res.StatusCode != tc.code || !strings.Contains(body, tc.says) {
			t.Errorf("%s: %d %s", tc.name, res.StatusCode, body)
		}
	}
	// The bucket refills by one event a second.
	for i := range 50 {
		res, body := s.Exchange(admin, "POST", core+"calm/events", event("e"+strings.Repeat("x", i), "calm"), map[string]string{"Content-Type": "application/json"})
		if res.StatusCode == 429 {
			if !strings.Contains(body, "Too many requests: limit reached on type Namespace for key calm") {
				t.Errorf("got %s", body)
			}
			return
		}
	}
	t.Error("50 events are accepted, want a 429")
}

// TestDefaultAdmission meets plugins that are on by default: a binding and a resize look at the node, and
// an Ingress gets the default class.
func TestDefaultAdmission(t *testing.T) {
	t.Parallel()
	s := harness.StartWith(t, func(cfg *apiserver.Config) { cfg.Admission.Disable = []string{"ServiceAccount"} })
	admin := s.Admin()
	const core, networking = "/api/v1/namespaces/default/", "/apis/networking.k8s.io/v1/"
	const js, merge = "application/json", "application/strategic-merge-patch+json"
	resize := func(cpu string) string {
		return `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`
	}
	for _, tc := range []struct {
		name, method, path, kind, body string
		code                           int
		says                           string
	}{
		{"a node", "POST", "/api/v1/nodes", js, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z1"}}}`, 201, `"name":"n"`},
		{"its resources", "PATCH", "/api/v1/nodes/n/status", merge, `{"status":{"capacity":{"cpu":"2","memory":"1Gi"},"allocatable":{"cpu":"2","memory":"1Gi"}}}`, 200, `"cpu":"2"`},
		{"a pod", "POST", core + "pods", js, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}],
			"initContainers":[{"name":"i","image":"i","resources":{"requests":{"cpu":"1"}}}]}}`, 201, `"name":"p"`},
		{"a binding", "POST", core + "pods/p/binding", js, `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, 201, "Success"},
		{"the labels of the node", "GET", core + "pods/p", js, "", 200, `"labels":{"topology.kubernetes.io/zone":"z1"}`},
		{"a smaller size", "PATCH", core + "pods/p/resize", merge, resize("500m"), 200, `"cpu":"500m"`},
		{"a size beyond the node", "PATCH", core + "pods/p/resize", merge, resize("3"), 403, "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000"},
		{"a size of an init container", "PATCH", core + "pods/p/resize", merge, strings.ReplaceAll(strings.ReplaceAll(resize("2"), `"c"`, `"i"`), "containers", "initContainers"), 403,
			`pod update requires features InPlacePodVerticalScalingInitContainers which are not available on node \"n\"`},
		{"an ingress class", "POST", networking + "ingressclasses", js, `{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass",
			"metadata":{"name":"main","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}},"spec":{"controller":"example.com/c"}}`, 201, `"name":"main"`},
		{"an ingress", "POST", networking + "namespaces/default/ingresses", js, `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"generateName":"i-"},
			"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}`, 201, `"ingressClassName":"main"`},
	} {
		// The plugins read the watch cache, which may trail the steps before.
		harness.Eventually(t, tc.name+" is answered with "+tc.says, func() bool {
			res, body := s.Exchange(admin, tc.method, tc.path, tc.body, map[string]string{"Content-Type": tc.kind})
			return res.StatusCode == tc.code && strings.Contains(body, tc.says)
		})
	}
}
