package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// pod returns the manifest of a pod with one container that has the resources.
func pod(name, resources string) string {
	// Older kubectls take a manifest that begins with a brace for JSON.
	return fmt.Sprintf("---\n"+`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: nginx, resources: {%s}}]}}`, name, resources)
}

// TestPolicies checks how an administrator limits what a team may use, and what the team's users
// see at the limits.
func TestPolicies(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	expect(t, p, "", `^namespace/team created\n$`, "create", "namespace", "team")

	t.Run("quota", func(t *testing.T) {
		expect(t, p, "", `^resourcequota/team created\n$`, "create", "quota", "team", "-n", "team", "--hard=pods=2,requests.cpu=1,count/configmaps=3")
		plane.Eventually(t, "the quota's status", func(context.Context) error {
			out := p.Must(t, "", "describe", "quota", "team", "-n", "team")
			if !strings.Contains(out, "count/configmaps  1     3\n") { // kube-root-ca.crt
				return errors.New(out)
			}
			return nil
		})
		plane.Eventually(t, "the quota to hold", func(context.Context) error {
			res := p.Kubectl(t, pod("a", ""), "create", "-n", "team", "-f", "-", "--dry-run=server")
			if !strings.Contains(res.Stderr, "failed quota: team") {
				return errors.New(res.Stdout + res.Stderr)
			}
			return nil
		})
		expectFailureStdin(t, p, pod("a", ""),
			`^Error from server \(Forbidden\): error when creating "STDIN": pods "a" is forbidden: failed quota: team: must specify requests\.cpu for: c\n$`,
			"create", "-n", "team", "-f", "-")
		expect(t, p, pod("a", "requests: {cpu: 600m}"), `^pod/a created\n$`, "create", "-n", "team", "-f", "-")
		expectFailureStdin(t, p, pod("b", "requests: {cpu: 500m}"),
			`pods "b" is forbidden: exceeded quota: team, requested: requests\.cpu=500m, used: requests\.cpu=600m, limited: requests\.cpu=1\n$`,
			"create", "-n", "team", "-f", "-")
		expect(t, p, pod("b", "requests: {cpu: 400m}"), `^pod/b created\n$`, "create", "-n", "team", "-f", "-")
		expectFailureStdin(t, p, pod("c", "requests: {cpu: 1m}"),
			`exceeded quota: team, requested: pods=1,requests\.cpu=1m, used: pods=2,requests\.cpu=1, limited: pods=2,requests\.cpu=1\n$`,
			"create", "-n", "team", "-f", "-")
		// Deleting a pod frees its quota.
		p.Must(t, "", "delete", "pod", "a", "-n", "team", "--wait")
		plane.Eventually(t, "room for another pod", func(context.Context) error {
			res := p.Kubectl(t, pod("c", "requests: {cpu: 1m}"), "create", "-n", "team", "-f", "-")
			if res.Code != 0 {
				return errors.New(res.Stderr)
			}
			return nil
		})
		expectSoon(t, p, `^NAME +REQUEST +LIMIT +AGE\nteam +count/configmaps: 1/3, pods: 2/2, requests\.cpu: 401m/1 +\S+\n$`, "get", "quota", "-n", "team")
	})
	t.Run("limits", func(t *testing.T) {
		expect(t, p, "", `created`, "create", "namespace", "limited")
		expect(t, p, "---\n"+`{apiVersion: v1, kind: LimitRange, metadata: {name: bounds}, spec: {limits: [{type: Container, default: {cpu: 200m}, defaultRequest: {cpu: 100m}, max: {cpu: "1"}}]}}`,
			`^limitrange/bounds created\n$`, "create", "-n", "limited", "-f", "-")
		plane.Eventually(t, "the limits to hold", func(context.Context) error {
			res := p.Kubectl(t, pod("greedy", "requests: {cpu: 2}, limits: {cpu: 2}"), "create", "-n", "limited", "-f", "-", "--dry-run=server")
			if !strings.Contains(res.Stderr, `pods "greedy" is forbidden: maximum cpu usage per Container is 1, but limit is 2`) {
				return errors.New(res.Stdout + res.Stderr)
			}
			return nil
		})
		expect(t, p, pod("modest", ""), `created`, "create", "-n", "limited", "-f", "-")
		expect(t, p, "", `^\{"limits":\{"cpu":"200m"\},"requests":\{"cpu":"100m"\}\}$`, "get", "pod", "modest", "-n", "limited",
			"-o", "jsonpath={.spec.containers[0].resources}")
	})
	t.Run("priority", func(t *testing.T) {
		expect(t, p, "", `^priorityclass\.scheduling\.k8s\.io/urgent created\n$`, "create", "priorityclass", "urgent", "--value=1000")
		expect(t, p, "", `(?s)^NAME +VALUE +GLOBAL-DEFAULT +AGE( +PREEMPTIONPOLICY)?\nsystem-cluster-critical +2000000000 .*\nsystem-node-critical +2000001000 .*\nurgent +1000 +false`,
			"get", "priorityclass")
		manifest := strings.Replace(pod("fast", ""), "containers", "priorityClassName: urgent, containers", 1)
		plane.Eventually(t, "a pod with the class", func(context.Context) error {
			if res := p.Kubectl(t, manifest, "create", "-f", "-"); res.Code != 0 {
				return errors.New(res.Stderr)
			}
			return nil
		})
		expect(t, p, "", `^1000$`, "get", "pod", "fast", "-o", "jsonpath={.spec.priority}")
		manifest = strings.Replace(pod("none", ""), "containers", "priorityClassName: nowhere, containers", 1)
		expectFailureStdin(t, p, manifest, `pods "none" is forbidden: no PriorityClass with name nowhere was found\n$`, "create", "-f", "-")
	})
	t.Run("pod security", func(t *testing.T) {
		expect(t, p, "", `created`, "create", "namespace", "secured")
		expect(t, p, "", `labeled`, "label", "namespace", "secured", "pod-security.kubernetes.io/enforce=baseline", "pod-security.kubernetes.io/warn=restricted")
		privileged := strings.Replace(pod("strong", ""), "image: nginx", "image: nginx, securityContext: {privileged: true}", 1)
		plane.Eventually(t, "the level to hold", func(context.Context) error {
			res := p.Kubectl(t, privileged, "create", "-n", "secured", "-f", "-", "--dry-run=server")
			if !strings.Contains(res.Stderr, `pods "strong" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`) {
				return errors.New(res.Stdout + res.Stderr)
			}
			return nil
		})
		res := p.Kubectl(t, pod("weak", ""), "create", "-n", "secured", "-f", "-")
		if res.Code != 0 || !strings.Contains(res.Stderr, `Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false`) {
			t.Errorf("exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
		}
	})
	t.Run("drain", func(t *testing.T) {
		expect(t, p, "", `created`, "create", "deployment", "web", "--image=nginx", "--replicas=2")
		expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/web")
		expect(t, p, "", `^poddisruptionbudget\.policy/web created\n$`, "create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=2")
		plane.Eventually(t, "the budget's status", func(context.Context) error {
			out := p.Must(t, "", "get", "pdb", "web", "-o", "jsonpath={.status.currentHealthy}/{.status.desiredHealthy}/{.status.disruptionsAllowed}")
			if out != "2/2/0" {
				return errors.New(out)
			}
			return nil
		})
		node := p.Must(t, "", "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
		plane.Eventually(t, "drain to be held back", func(context.Context) error {
			res := p.Kubectl(t, "", "drain", node, "--pod-selector=app=web", "--timeout=7s")
			if res.Code == 0 {
				t.Fatalf("drained\n%s%s", res.Stdout, res.Stderr)
			}
			if !strings.Contains(res.Stderr, "Cannot evict pod as it would violate the pod's disruption budget.") {
				return errors.New(res.Stdout + res.Stderr)
			}
			return nil
		})
		p.Must(t, "", "delete", "pdb", "web")
		expect(t, p, "", `evicted\n(.*\n)*node/\S+ drained\n$`, "drain", node, "--pod-selector=app=web")
		expect(t, p, "", `uncordoned\n$`, "uncordon", node)
	})
}
