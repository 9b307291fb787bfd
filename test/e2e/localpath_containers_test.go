//go:build containers

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

const keeper = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: keeper}
spec:
  serviceName: keeper
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: keeper}}
  template:
    metadata: {labels: {app: keeper}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {fsGroup: 2000}
      containers:
      - name: keeper
        image: busybox:1.36
        command: [sh, -c, "echo $HOSTNAME >> /data/names && cat /data/names && sleep 3600"]
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: data, mountPath: /part, subPath: part}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Mi}}
`

// TestAStatefulSetKeepsItsData runs a StatefulSet whose claims get local-path volumes. Its pods find their
// data again when the set is deleted and created anew; the data goes with the claim.
func TestAStatefulSetKeepsItsData(t *testing.T) {
	containers := harness.Start(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "containerd", "--containerd", containers.Endpoint())
	plane.Eventually(t, "the default storage class", func(context.Context) error {
		if got := p.Must(t, "", "get", "storageclass", "-o", "jsonpath={.items[*].metadata.name}"); got != "local-path" {
			return fmt.Errorf("the storage classes are %q", got)
		}
		return nil
	})
	written := func(times int) {
		t.Helper()
		for _, pod := range []string{"keeper-0", "keeper-1"} {
			want := strings.Repeat(pod+"\n", times)
			plane.Eventually(t, pod+" to print its file", func(context.Context) error {
				if phase := p.Must(t, "", "get", "pods", pod, "--ignore-not-found", "-o", "jsonpath={.status.phase}"); phase != "Running" {
					return fmt.Errorf("%s is %q; Events:\n%s", pod, phase, p.Must(t, "", "get", "events"))
				}
				// The pod may still be the one of the deleted set, and go at this moment.
				if r := p.Kubectl(t, "", "logs", pod); r.Code != 0 || r.Stdout != want {
					return fmt.Errorf("%s printed %q, want %q: %s", pod, r.Stdout, want, r.Stderr)
				}
				return nil
			})
		}
	}
	folders := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(p.DataDir, "nodes", "*", "local-volumes", "pvc-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	expect(t, p, keeper, `statefulset.apps/keeper created`, "create", "-f", "-")
	written(1)
	expect(t, p, "", `deleted`, "delete", "statefulset", "keeper", "--wait")
	noneLeft(t, containers)
	if found := folders(); len(found) != 2 {
		t.Fatalf("the folders are %v", found)
	}
	expect(t, p, keeper, `statefulset.apps/keeper created`, "create", "-f", "-")
	written(2)

	expect(t, p, "", `deleted`, "delete", "statefulset", "keeper", "--wait")
	noneLeft(t, containers)
	first := strings.TrimSpace(p.Must(t, "", "get", "pvc", "data-keeper-0", "-o", "jsonpath={.spec.volumeName}"))
	expect(t, p, "", `deleted`, "delete", "pvc", "data-keeper-0", "--wait")
	plane.Eventually(t, "the volume and its folder to go", func(context.Context) error {
		left := strings.TrimSpace(p.Must(t, "", "get", "pv", "-o", "name"))
		if found := folders(); strings.Contains(left, first) || len(found) != 1 {
			return fmt.Errorf("the volumes are %q, the folders %v", left, found)
		}
		return nil
	})
	data, err := os.ReadFile(filepath.Join(folders()[0], "names"))
	if err != nil || string(data) != "keeper-1\nkeeper-1\n" {
		t.Errorf("the other volume has %q, %v", data, err)
	}
	expect(t, p, "", `deleted`, "delete", "pvc", "data-keeper-1", "--wait")
	plane.Eventually(t, "all folders to go", func(context.Context) error {
		if found := folders(); len(found) != 0 {
			return fmt.Errorf("the folders are %v", found)
		}
		return nil
	})
}
