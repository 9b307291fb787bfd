//go:build operators

package operators

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// aggregated leads requests for an API to a process of this machine.
const aggregated = `
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {ports: [{name: https, port: 443, protocol: TCP}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %[3]s.%[4]s}
spec:
  group: %[4]s
  version: %[3]s
  groupPriorityMinimum: 1000
  versionPriority: 15
  caBundle: %[5]s
  service: {name: %[2]s, namespace: %[1]s}
`

const flunder = `{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: %s, namespace: default, labels: {round: "%d"}}}`

// aggregate registers an API that a process of this machine serves, with a certificate in a folder.
func (c *cluster) aggregate(t *testing.T, namespace, service, group, version, folder, port string) {
	t.Helper()
	bundle := base64.StdEncoding.EncodeToString(serving(t, folder, service+"."+namespace+".svc"))
	c.Must(t, fmt.Sprintf(aggregated, namespace, service, version, group, bundle), "apply", "--server-side", "-f", "-")
	c.endpoint(t, namespace, service, "https", port)
}

// TestSampleAPIServer runs Kubernetes' sample-apiserver behind the apiserver: kubectl works with a Flunder as
// with any object, as the user that it is.
func TestSampleAPIServer(t *testing.T) {
	operator := build(t, "sample-apiserver", "k8s.io/sample-apiserver", "k8s.io/sample-apiserver")
	c := start(t)
	example := func(name string) string { return filepath.Join(operator.source, "artifacts/example", name) }
	for _, name := range []string{"ns.yaml", "sa.yaml", "rbac.yaml", "rbac-bind.yaml", "auth-delegator.yaml", "auth-reader.yaml"} {
		c.Must(t, "", "apply", "--server-side", "-f", example(name))
	}
	// Its own role is older than the policies that its library watches.
	c.Must(t, "", "create", "clusterrole", "wardle-policies", "--verb=get,list,watch",
		"--resource=mutatingadmissionpolicies.admissionregistration.k8s.io,mutatingadmissionpolicybindings.admissionregistration.k8s.io")
	c.Must(t, "", "create", "clusterrolebinding", "wardle-policies", "--clusterrole=wardle-policies", "--serviceaccount=wardle:apiserver")
	account, folder, port := c.user(t, "wardle", "apiserver", ""), t.TempDir(), freePort(t)
	c.aggregate(t, "wardle", "api", "wardle.example.com", "v1alpha1", folder, port)
	c.Must(t, "", "wait", "apiservice/v1alpha1.wardle.example.com", "--for=jsonpath={.status.conditions[0].reason}=FailedDiscoveryCheck", "--timeout=2m")
	if res := c.Kubectl(t, "", "get", "--raw", "/apis/wardle.example.com/v1alpha1/flunders"); res.Code == 0 || !strings.Contains(res.Stderr, "service unavailable: the APIService v1alpha1.wardle.example.com") {
		t.Errorf("an API whose server does not run: %s%s", res.Stdout, res.Stderr)
	}
	c.operate(t, operator.path, "--secure-port", port, "--etcd-servers", "http://"+c.Etcd, "--tls-cert-file", filepath.Join(folder, "tls.crt"),
		"--tls-private-key-file", filepath.Join(folder, "tls.key"), "--kubeconfig", account, "--authentication-kubeconfig", account,
		"--authorization-kubeconfig", account, "--feature-gates=UnknownVersionInteroperabilityProxy=false")
	available := func() {
		t.Helper()
		c.shows(t, "True", "get", "apiservice", "v1alpha1.wardle.example.com", "-o", "jsonpath={.status.conditions[?(@.type=='Available')].status}")
	}
	available()
	reconcile := func(round int) {
		available()
		name := fmt.Sprintf("f%d", round)
		c.shows(t, "flunder.wardle.example.com/"+name+" serverside-applied", "apply", "--server-side", "--force-conflicts", "-f", c.file(t, fmt.Sprintf(flunder, name, round)))
		c.shows(t, name, "get", "flunders", "-l", fmt.Sprintf("round=%d", round), "-o", "jsonpath={.items[0].metadata.name}")
	}
	reconcile(0)
	for _, want := range []struct{ text, args string }{
		{"flunders", "api-resources --api-group=wardle.example.com -o name"},
		{"KIND:       Flunder", "explain flunder"},
		{"wardle.example.com/v1alpha1", "api-versions"},
		{"/openapi/v3/apis/wardle.example.com/v1alpha1?hash=", "get --raw /openapi/v3"},
		{"sample-apiserver.pkg.apis.wardle.v1alpha1.Flunder", "get --raw /openapi/v3/apis/wardle.example.com/v1alpha1"},
		{"sample-apiserver.pkg.apis.wardle.v1alpha1.Flunder", "get --raw /openapi/v2"},
	} {
		c.eventually(t, want.args, contains(c, t, want.text, strings.Fields(want.args)...))
	}
	// The other server asks the apiserver what a user may do, and knows who it is.
	jane := []string{"--as", "jane", "--as-group", "system:authenticated"}
	if res := c.Kubectl(t, "", append([]string{"get", "flunders"}, jane...)...); res.Code == 0 || !strings.Contains(res.Stderr, `User "jane" cannot list resource "flunders"`) {
		t.Errorf("a user without rights: %s%s", res.Stdout, res.Stderr)
	}
	c.Must(t, "", "create", "role", "flunders", "--verb=get,list,watch", "--resource=flunders.wardle.example.com")
	c.Must(t, "", "create", "rolebinding", "flunders", "--role=flunders", "--user=jane")
	c.shows(t, "f0", append([]string{"get", "flunders", "-o", "jsonpath={.items[0].metadata.name}"}, jane...)...)
	if res := c.Kubectl(t, "", append([]string{"delete", "flunder", "f0"}, jane...)...); res.Code == 0 || !strings.Contains(res.Stderr, `User "jane" cannot delete resource "flunders"`) {
		t.Errorf("a user without the right to delete: %s%s", res.Stdout, res.Stderr)
	}
	c.shows(t, "flunder.wardle.example.com/f0 patched", "patch", "flunder", "f0", "--type=merge", "-p", `{"metadata":{"labels":{"a":"b"}}}`)
	c.survives(t, reconcile)
	c.owns(t)
	c.Must(t, "", "delete", "flunders", "--all")
	c.Must(t, "", "delete", "apiservice", "v1alpha1.wardle.example.com")
	c.eventually(t, "discovery without the API", lacks(c, t, "wardle.example.com", "api-versions"))
}

// owns checks that Flunders go with their owners and with their namespace, and what they own with them.
func (c *cluster) owns(t *testing.T) {
	t.Helper()
	const owned = `{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s, ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s}]}}`
	uid := func(resource, name string) string {
		return strings.TrimSpace(c.Must(t, "", "get", resource, name, "-o", "jsonpath={.metadata.uid}"))
	}
	apply := func(text string, args ...any) {
		c.Must(t, fmt.Sprintf(text, args...), "apply", "--server-side", "-f", "-")
	}
	c.Must(t, "", "create", "configmap", "top")
	apply(owned, "wardle.example.com/v1alpha1", "Flunder", "middle", "default", "v1", "ConfigMap", "top", uid("configmap", "top"))
	apply(owned, "v1", "ConfigMap", "leaf", "default", "wardle.example.com/v1alpha1", "Flunder", "middle", uid("flunder", "middle"))
	c.Must(t, "", "delete", "configmap", "top")
	c.eventually(t, "what the ConfigMap owned to go", lacks(c, t, "/middle", "get", "flunders", "-o", "name"))
	c.eventually(t, "what the Flunder owned to go", lacks(c, t, "/leaf", "get", "configmaps", "-o", "name"))

	c.Must(t, "", "create", "namespace", "brief")
	apply(`{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: inside, namespace: brief}}`)
	c.Must(t, "", "delete", "namespace", "brief", "--timeout=3m")
	c.eventually(t, "the Flunder to go with its namespace", lacks(c, t, "/inside", "get", "flunders", "--all-namespaces", "-o", "name"))
}
