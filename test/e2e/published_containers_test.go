//go:build containers

package e2e_test

import (
	"fmt"
	"net"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// TestPodReachesAPI: a container sends a request to the address that the endpoints of the
// kubernetes Service have. It verifies the server's certificate with the authority in its own
// files.
func TestPodReachesAPI(t *testing.T) {
	address, err := utilnet.ChooseHostInterface()
	if err != nil {
		t.Skipf("this machine has no address to publish: %v", err)
	}
	containers := harness.Start(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "containerd", "--containerd", containers.Endpoint(), "--listen", net.JoinHostPort(address.String(), "0"))
	published := p.Must(t, "", "get", "endpointslices", "kubernetes", "-o", "jsonpath={.endpoints[0].addresses[0]}:{.ports[0].port}")
	expect(t, p, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: asks}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: busybox:1.36
    command: [wget, "https://%s/version"]
    env: [{name: SSL_CERT_FILE, value: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt}]
`, published), "created", "create", "-f", "-")
	expectSoon(t, p, `^Succeeded$`, "get", "po", "asks", "-o", "jsonpath={.status.phase}")
	expect(t, p, "", `gitVersion`, "logs", "asks")
	expect(t, p, "", `deleted`, "delete", "po", "asks", "--wait")
	noneLeft(t, containers)
}
