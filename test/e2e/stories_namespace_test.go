package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// crowd returns 1,000 objects: forty of each of 25 kinds. Some pods run.
func crowd() string {
	const pod = `{metadata: {labels: {app: crowd-NN}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: nginx, resources: {requests: {cpu: 1m}}}]}}`
	const job = `{template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}, suspend: true}`
	const selector = `selector: {matchLabels: {app: crowd-NN}}`
	kinds := []string{
		"v1 ConfigMap data: {a: b}",
		"v1 Secret stringData: {a: b}",
		"v1 Service spec: {clusterIP: None, ports: [{port: 80}]}",
		"v1 Endpoints subsets: [{addresses: [{ip: 192.0.2.1}], ports: [{port: 80}]}]",
		"discovery.k8s.io/v1 EndpointSlice {addressType: IPv4, endpoints: [{addresses: [192.0.2.1]}]}",
		"v1 ServiceAccount automountServiceAccountToken: false",
		"rbac.authorization.k8s.io/v1 Role rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]",
		"rbac.authorization.k8s.io/v1 RoleBinding {roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: crowd-NN}, subjects: [{kind: ServiceAccount, name: crowd-NN}]}",
		"v1 LimitRange spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 1Gi}}]}",
		"v1 ResourceQuota spec: {hard: {count/widgets.example.com: 1}}",
		"v1 PersistentVolumeClaim spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Mi}}}",
		"v1 PodTemplate template: " + pod,
		"v1 Pod spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: nginx}]}",
		"v1 ReplicationController spec: {replicas: 0, selector: {app: crowd-NN}, template: " + pod + "}",
		"apps/v1 ReplicaSet spec: {replicas: 0, " + selector + ", template: " + pod + "}",
		"apps/v1 Deployment spec: {replicas: 1, " + selector + ", template: " + pod + "}",
		"apps/v1 StatefulSet spec: {replicas: 0, serviceName: crowd-NN, " + selector + ", template: " + pod + "}",
		"apps/v1 ControllerRevision {revision: 1, data: {a: b}}",
		"batch/v1 Job spec: " + job,
		"batch/v1 CronJob spec: {schedule: '0 4 29 2 *', jobTemplate: {spec: " + job + "}}",
		"autoscaling/v2 HorizontalPodAutoscaler spec: {maxReplicas: 1, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: crowd-NN}}",
		"policy/v1 PodDisruptionBudget spec: {maxUnavailable: 1, " + selector + "}",
		"networking.k8s.io/v1 NetworkPolicy spec: {podSelector: {matchLabels: {app: crowd-NN}}}",
		"networking.k8s.io/v1 Ingress spec: {defaultBackend: {service: {name: crowd-NN, port: {number: 80}}}}",
		"coordination.k8s.io/v1 Lease spec: {holderIdentity: nobody}",
	}
	var all strings.Builder
	for _, kind := range kinds {
		words := strings.SplitN(kind, " ", 3)
		body := words[2]
		if !strings.HasPrefix(body, "{") {
			body = "{" + body + "}"
		}
		for i := range 1000 / len(kinds) {
			fields := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(body, "{"), "}"), "NN", fmt.Sprint(i))
			fmt.Fprintf(&all, "---\n{apiVersion: %s, kind: %s, metadata: {name: crowd-%d}, %s}\n", words[0], words[1], i, fields)
		}
	}
	return all.String()
}

// namespaceGoes deletes a namespace with 1,000 objects.
func namespaceGoes(t *testing.T, p *plane.Plane) {
	expect(t, p, "", `created`, "create", "namespace", "crowd")
	plane.Eventually(t, "the default ServiceAccount", func(context.Context) error {
		if res := p.Kubectl(t, "", "get", "serviceaccount", "default", "-n", "crowd"); res.Code != 0 {
			return errors.New(res.Stderr)
		}
		return nil
	})
	created := p.Must(t, crowd(), "create", "-n", "crowd", "-f", "-")
	if n := strings.Count(created, " created\n"); n != 1000 {
		t.Errorf("%d objects were created, want 1,000", n)
	}
	expectSoon(t, p, `^(1 ){39}1$`, "get", "deployments", "-n", "crowd", "-o", "jsonpath={.items[*].status.availableReplicas}")
	expect(t, p, "", `^namespace "crowd" deleted\n$`, "delete", "namespace", "crowd", "--wait", "--timeout=180s")
	expectFailure(t, p, `^Error from server \(NotFound\): namespaces "crowd" not found\n$`, "get", "namespace", "crowd")
	nothingIn(t, p, "crowd", `^$`)
}

// nothingIn fails the test unless the names of all objects in the namespace match the pattern.
func nothingIn(t *testing.T, p *plane.Plane, namespace, but string) {
	t.Helper()
	kinds := strings.Fields(p.Must(t, "", "api-resources", "--namespaced", "--verbs=list", "-o", "name"))
	if len(kinds) < 25 {
		t.Errorf("the kinds in namespaces are %v", kinds)
	}
	expectSoon(t, p, but, "get", strings.Join(kinds, ","), "-n", namespace, "-o", "name", "--ignore-not-found")
}
