package e2e_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// hungry is a Deployment with an autoscaler, in which each pod uses 250m of a CPU and 64Mi of memory.
const hungry = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: hungry}
spec:
  selector: {matchLabels: {app: hungry}}
  template:
    metadata:
      labels: {app: hungry}
      annotations: {simulated.garboard.io/cpu-usage: 250m, simulated.garboard.io/memory-usage: 64Mi}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: hungry, image: nginx, resources: {requests: {cpu: 100m}}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: hungry}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: hungry}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 100}}}]
`

// TestTop reads what nodes and pods use and scales a Deployment by it, with nothing but the plane.
func TestTop(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--nodes", "2", "--horizontal-pod-autoscaler-sync-period", "1s")
	in := func(args ...string) []string { return append(args, "-n", "hungry") }
	expectFailure(t, p, `"v1beta1.metrics.k8s.io" not found`, "get", "apiservice", "v1beta1.metrics.k8s.io")
	expect(t, p, "", `created`, "create", "namespace", "hungry")
	expect(t, p, hungry, `^deployment\.apps/hungry created\nhorizontalpodautoscaler\.autoscaling/hungry created\n$`, in("create", "-f", "-")...)
	const pod = `hungry-\S+ +`
	expectSoon(t, p, `^(`+pod+`250m +64Mi *\n){3}$`, in("top", "pods", "--no-headers")...)
	expectSoon(t, p, `^NAME +REFERENCE +TARGETS +MINPODS +MAXPODS +REPLICAS +AGE\nhungry +Deployment/hungry +cpu: 250%/100% +1 +3 +3 +\S+\n$`, in("get", "hpa")...)
	expect(t, p, "", `^POD +NAME +CPU\(cores\) +MEMORY\(bytes\) *\n(`+pod+`hungry +250m +64Mi *\n){3}$`, in("top", "pods", "--containers", "-l", "app=hungry")...)
	expect(t, p, "", `^NAME +CPU +MEMORY +WINDOW\n(`+pod+`250m +64Mi +15s\n){3}$`, in("get", "pods.metrics.k8s.io")...)
	expectSoon(t, p, `^NAME +CPU\(cores\) +CPU\(%\) +MEMORY\(bytes\) +MEMORY\(%\) *\n(\S+ +\d+m +\d+% +\d+Mi +\d+% *\n){2}$`, "top", "nodes")
	name := strings.TrimSpace(p.Must(t, "", in("get", "pods", "-o", "jsonpath={.items[0].metadata.name}")...))
	expect(t, p, "", `^`+name+` +250m +64Mi *\n$`, in("top", "pod", name, "--no-headers")...)
	for _, role := range []string{"view", "edit", "admin"} {
		expectSoon(t, p, `\n +pods\.metrics\.k8s\.io +\[\] +\[\] +\[get list watch\]\n`, "describe", "clusterrole", role)
	}
}
