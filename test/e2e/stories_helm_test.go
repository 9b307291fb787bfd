package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"

	"github.com/garboard/garboard/test/e2e/plane"
)

// fleet loads the chart with a workload of each kind.
func fleet(t *testing.T) *chart.Chart {
	t.Helper()
	return must[*chart.Chart](t)(loader.Load("testdata/charts/fleet"))
}

// helmWaits installs, upgrades and uninstalls a chart with workloads of every kind, each with --wait.
func helmWaits(t *testing.T, p *plane.Plane) {
	h := newHelm(t, p, "fleet")
	must[*release.Release](t)(h.installChart(t, fleet(t), "fleet", func(install *action.Install) {
		install.Wait, install.WaitForJobs = true, true
	}))
	fleetRuns(t, p, "nginx:1", 2, "fleet-import-1")
	claims := field(t, p, "fleet", "pvc", ".items[*].spec.volumeName")

	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.Timeout, upgrade.Wait, upgrade.WaitForJobs = "fleet", plane.Patience, true, true
	must[*release.Release](t)(upgrade.RunWithContext(t.Context(), "fleet", fleet(t), h.values(t, "image=nginx:2", "replicas=3")))
	fleetRuns(t, p, "nginx:2", 3, "fleet-import-2")
	if now := field(t, p, "fleet", "pvc", ".items[*].spec.volumeName"); !strings.HasPrefix(now, claims+" ") {
		t.Errorf("the claims have the volumes %q, had %q", now, claims)
	}
	gone(t, p, "fleet", "job/fleet-import-1")
	h.wantHistory(t, "fleet", "1 superseded: Install complete", "2 deployed: Upgrade complete")

	uninstall := action.NewUninstall(h.config)
	uninstall.Wait, uninstall.Timeout = true, plane.Patience
	must[*release.UninstallReleaseResponse](t)(uninstall.Run("fleet"))
	nothingIn(t, p, "fleet", `^configmap/kube-root-ca\.crt\n(event/\S+\n)*serviceaccount/default\n(event\.events\.k8s\.io/\S+\n)*$`)
	plane.Eventually(t, "the volumes to go", func(context.Context) error {
		if left := field(t, p, "", "pv", ".items[?(@.spec.claimRef.namespace==\"fleet\")].metadata.name"); left != "" {
			return errors.New(left)
		}
		return nil
	})
}

// fleetRuns fails the test unless all workloads run the image, as Helm has awaited.
func fleetRuns(t *testing.T, p *plane.Plane, image string, replicas int, job string) {
	t.Helper()
	for _, c := range []struct{ object, path, want string }{
		{"statefulset/fleet-store", ".spec.template.spec.containers[0].image} {.status.readyReplicas} {.status.updatedReplicas", fmt.Sprint(image, " ", replicas, replicas)},
		{"daemonset/fleet-agent", ".spec.template.spec.containers[0].image} {.status.numberReady} {.status.updatedNumberScheduled", image + " 3 3"},
		{"job/" + job, ".spec.template.spec.containers[0].image} {.status.succeeded", image + " 2"},
		{"cronjob/fleet-report", ".spec.jobTemplate.spec.template.spec.containers[0].image", image},
	} {
		if got := field(t, p, "fleet", c.object, c.path); got != c.want {
			t.Errorf("%s%s is %q, want %q", c.object, c.path, got, c.want)
		}
	}
	// Nobody has awaited what reports on the Deployment.
	for _, c := range []struct{ object, path, want string }{
		{"deployment/fleet-front", "{.spec.template.spec.containers[0].image} {.status.updatedReplicas} {.status.replicas}", fmt.Sprint(image, " ", replicas, replicas)},
		{"pdb/fleet-front", "{.status.currentHealthy} {.status.disruptionsAllowed}", fmt.Sprintf("%d 1", replicas)},
		{"hpa/fleet-front", `{.status.currentReplicas} {.status.conditions[?(@.type=="ScalingActive")].status}`, fmt.Sprintf("%d True", replicas)},
		{"endpoints/fleet-front", "{.subsets[*].addresses[*].targetRef.kind}", strings.TrimSpace(strings.Repeat("Pod ", replicas))},
	} {
		expectSoon(t, p, "^"+c.want+"$", "get", c.object, "-n", "fleet", "-o", "jsonpath="+c.path)
	}
}
