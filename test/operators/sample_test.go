//go:build operators

package operators

import (
	"fmt"
	"path/filepath"
	"testing"
)

const foo = `{apiVersion: samplecontroller.k8s.io/v1alpha1, kind: Foo, metadata: {name: example, namespace: default},
	spec: {deploymentName: example, replicas: %d}}`

// TestSampleController runs Kubernetes' sample-controller: a Foo has a Deployment.
func TestSampleController(t *testing.T) {
	operator := build(t, "sample-controller", "k8s.io/sample-controller", "k8s.io/sample-controller")
	c := start(t)
	c.install(t, filepath.Join(operator.source, "artifacts/examples/crd-status-subresource.yaml"))
	c.operate(t, operator.path, "-kubeconfig", c.user(t, "default", "sample-controller", "cluster-admin"))
	reconcile := func(round int) {
		replicas := 1 + round%3
		c.Must(t, fmt.Sprintf(foo, replicas), "apply", "--server-side", "-f", "-")
		c.shows(t, fmt.Sprint(replicas), "get", "deployment", "example", "-o", "jsonpath={.status.readyReplicas}")
		c.shows(t, fmt.Sprint(replicas), "get", "foo", "example", "-o", "jsonpath={.status.availableReplicas}")
	}
	reconcile(0)
	c.survives(t, reconcile)
	c.shows(t, "Foo synced successfully", "events", "--for=foo/example", "-o", "jsonpath={.items[0].message}")
	c.uninstall(t, "foos")
	// The garbage collector deletes what the Foo owned.
	c.shows(t, "No resources found in default namespace.", "get", "deployments,replicasets,pods")
}
