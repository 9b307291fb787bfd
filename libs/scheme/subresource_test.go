package scheme_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// TestVerbs checks what each sort of kind serves.
func TestVerbs(t *testing.T) {
	table := scheme.New()
	for name, want := range map[string]string{
		"pods": "create delete deletecollection get list patch update watch", "namespaces": "create delete get list patch update watch",
		"componentstatuses": "get list", "bindings": "create",
	} {
		if got := strings.Join(table.Resource(corev1.SchemeGroupVersion.WithResource(name)).Verbs(), " "); got != want {
			t.Errorf("%s have the verbs %q, want %q", name, got, want)
		}
	}
}

// TestSubresourceRows compares every subresource of the built-in kinds but status with Kubernetes'.
func TestSubresourceRows(t *testing.T) {
	const scaled = "autoscaling/v1 Scale get patch update special"
	want := map[string]string{
		"certificatesigningrequests/approval": "certificates.k8s.io/v1 CertificateSigningRequest get patch update",
		"deployments/scale":                   scaled, "replicasets/scale": scaled, "replicationcontrollers/scale": scaled, "statefulsets/scale": scaled,
		"namespaces/finalize": "v1 Namespace update",
		"pods/attach":         "v1 PodAttachOptions create get special virtual long", "pods/exec": "v1 PodExecOptions create get special virtual long",
		"pods/proxy":       "v1 PodProxyOptions create delete get patch update special virtual long",
		"services/proxy":   "v1 ServiceProxyOptions create delete get patch update special virtual long",
		"nodes/proxy":      "v1 NodeProxyOptions create delete get patch update special virtual long",
		"pods/portforward": "v1 PodPortForwardOptions create get special virtual long",
		"pods/binding":     "v1 Binding create special", "pods/ephemeralcontainers": "v1 Pod get patch update",
		"pods/eviction": "policy/v1 Eviction create special", "pods/log": "v1 Pod get special long", "pods/resize": "v1 Pod get patch update",
		"serviceaccounts/token": "authentication.k8s.io/v1 TokenRequest create special virtual",
	}
	for _, kind := range scheme.New().Kinds() {
		for i := range kind.Subresources {
			s := &kind.Subresources[i]
			version, of := s.Kind.ToAPIVersionAndKind()
			got := strings.Join(append([]string{version, of}, s.Verbs...), " ")
			if s.Special(kind) {
				got += " special"
			}
			if s.Virtual {
				got += " virtual"
			}
			if s.LongRunning {
				got += " long"
			}
			if kind.Subresource(s.Name) != s {
				t.Errorf("%s/%s is not found", kind.Resource, s.Name)
			}
			name := kind.Resource + "/" + s.Name
			if s.Name == "status" {
				want[name] = kind.GroupVersion().String() + " " + kind.Kind + " get patch update"
			}
			if got != want[name] {
				t.Errorf("%s is %q, want %q", name, got, want[name])
			}
			delete(want, name)
		}
		if kind.Subresource("rocket") != nil || kind.HasSubresource("") {
			t.Errorf("%s serve what no row names", kind.Resource)
		}
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}
