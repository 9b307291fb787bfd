package e2e_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestKubectl drives a plane as a user of Kubernetes does. Each command's output and exit code must
// be those of Kubernetes.
func TestKubectl(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--nodes", "2")
	for _, part := range []struct {
		name string
		run  func(t *testing.T, p *plane.Plane)
	}{
		{"the server", kubectlServer},
		{"wrong input", kubectlWrongInput},
		{"patches", kubectlPatches},
		{"rollouts", kubectlRollouts},
		{"conflicts", kubectlConflicts},
		{"pod states", kubectlPods},
		{"nodes", kubectlNodes},
		{"namespaces", kubectlNamespaces},
		{"kinds", kubectlKinds},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, p) })
	}
}

// web returns the manifest of a Deployment. changes are pairs of an old and a new text to replace
// in it.
func web(changes ...string) string {
	return strings.NewReplacer(changes...).Replace(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: nginx, image: "nginx:1", ports: [{containerPort: 80}]}]}
`)
}

func kubectlServer(t *testing.T, p *plane.Plane) {
	expect(t, p, "", `^Client Version: v1\.\d+\.\d+\S*\nKustomize Version: \S+\nServer Version: v1\.37\.\d+\+garboard\n`, "version")
	expect(t, p, "", `(?m)^deployments +deploy +apps/v1 +true +Deployment$`, "api-resources")
	expect(t, p, "", `^ok$`, "get", "--raw", "/readyz")
	expectSoon(t, p, `^NAME +STATUS +ROLES +AGE +VERSION\nnode-1 +Ready +<none> +\S+ +v1\.37\.\d+\nnode-2 +Ready `, "get", "nodes")
	expect(t, p, "", `(?s)^KIND: +Pod\nVERSION: +v1\n\nFIELD: restartPolicy <string>\nENUM:\n +Always\n +Never\n +OnFailure\n`, "explain", "pod.spec.restartPolicy")
	expect(t, p, "", `(?m)^poddisruptionbudgets +pdb +policy/v1 +true +PodDisruptionBudget$`, "api-resources")
	expect(t, p, "", `^selfsubjectreviews\.authentication\.k8s\.io\ntokenreviews\.authentication\.k8s\.io\n$`, "api-resources", "--api-group=authentication.k8s.io", "-o", "name", "--verbs=create")
	expect(t, p, "", `^$`, "api-resources", "--api-group=authentication.k8s.io", "-o", "name", "--verbs=list")
	expectSoon(t, p, `(?s)^NAME +CPU\(cores\) .*\nnode-1 .*\nnode-2 `, "top", "nodes")
	expectFailure(t, p, `^error: the server doesn't have a resource type "foo"\n$`, "get", "foo")
	expectFailure(t, p, `^Error from server \(NotFound\): pods "none" not found\n$`, "get", "pod", "none")
	expectFailure(t, p, `field label not supported: foo\n$`, "get", "pods", "--field-selector", "foo=bar")
	expectFailure(t, p, `"status\.replicas" is not a known field selector: only "metadata\.name", "metadata\.namespace"\n$`,
		"get", "deployments", "--field-selector", "status.replicas=1")
	expectFailure(t, p, `unable to parse requirement: found '', expected: ',' or '\)'\n$`, "get", "pods", "-l", "a in (b")
}

func kubectlWrongInput(t *testing.T, p *plane.Plane) {
	expectFailureStdin(t, p, web("replicas: 2", `replicas: "two"`), `^Error from server \(BadRequest\): error when creating "STDIN": Deployment in version "v1" cannot be handled as a Deployment: `+
		`json: cannot unmarshal string into Go struct field DeploymentSpec\.spec\.replicas of type int32\n$`, "create", "-f", "-")
	expectFailureStdin(t, p, web("replicas: 2", "replicsa: 2"), `strict decoding error: unknown field "spec\.replicsa"\n$`, "create", "-f", "-")
	expectFailureStdin(t, p, web("name: web,", "name: We_b,"), `^The Deployment "We_b" is invalid: metadata\.name: Invalid value: "We_b": a lowercase RFC 1123 subdomain must consist of `, "create", "-f", "-")
	expectFailureStdin(t, p, web(`"nginx:1"`, `""`, "80", "80000"), `^The Deployment "web" is invalid: \n(\* spec\.template\.spec\.containers\[0\]\.\S+: .*\n){2}$`, "create", "-f", "-")
	expectFailureStdin(t, p, web(), `^Error from server \(NotFound\): error when creating "STDIN": namespaces "nope" not found\n$`, "create", "-n", "nope", "-f", "-")
	big := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: big}\ndata: {a: " + strings.Repeat("x", 4<<20) + "}\n"
	expectFailureStdin(t, p, big, `^Error from server \(RequestEntityTooLarge\): .*Request entity too large: limit is 3145728\n$`, "create", "-f", "-")
	expectFailureStdin(t, p, web("replicas: 2", "replicsa: 2"), `^Error from server: failed to create typed patch object \(default/web; apps/v1, Kind=Deployment\): \.spec\.replicsa: field not declared in schema\n$`,
		"apply", "--server-side", "-f", "-")
	expect(t, p, web(), `^deployment\.apps/web created \(server dry run\)\n$`, "create", "--dry-run=server", "-f", "-")
	expectFailure(t, p, `deployments\.apps "web" not found\n$`, "get", "deployment", "web")
}

func kubectlPatches(t *testing.T, p *plane.Plane) {
	expect(t, p, web(), `^deployment\.apps/web created\n$`, "apply", "-f", "-")
	expect(t, p, "", `^deployment\.apps/web patched\n$`, "patch", "deployment", "web", "-p", `{"spec":{"minReadySeconds":1}}`)
	// This is retried: a controller's write between kubectl's two requests also counts as a change.
	expectSoon(t, p, `^deployment\.apps/web patched \(no change\)\n$`, "patch", "deployment", "web", "-p", `{"spec":{"minReadySeconds":1}}`)
	expect(t, p, "", `^deployment\.apps/web patched\n$`, "patch", "deployment", "web", "--type=json", "-p", `[{"op":"remove","path":"/spec/minReadySeconds"}]`)
	expectFailure(t, p, `^The request is invalid: patch: Invalid value: "map\[spec:map\[replicas:x\]\]": unrecognized type: int32\n$`,
		"patch", "deployment", "web", "-p", `{"spec":{"replicas":"x"}}`)
	expectFailure(t, p, `^The request is invalid: patch: Invalid value: .* of type int32\n$`, "patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"replicas":"x"}}`)
	expectFailure(t, p, `^The request is invalid: the server rejected our request due to an error in our request\n$`,
		"patch", "deployment", "web", "--type=json", "-p", `[{"op":"test","path":"/spec/replicas","value":7}]`)
	expectFailure(t, p, `spec\.selector: Invalid value: \{"matchLabels":\{"app":"z"\}\}: field is immutable\n$`,
		"patch", "deployment", "web", "-p", `{"spec":{"selector":{"matchLabels":{"app":"z"}}}}`)
	expectFailure(t, p, `^error: Expected replicas to be 9, was 2\n$`, "scale", "deployment", "web", "--replicas=3", "--current-replicas=9")
	expect(t, p, "", `^deployment\.apps/web labeled\n$`, "label", "deployment", "web", "tier=front")
	expect(t, p, "", `^deployment\.apps/web not labeled\n$`, "label", "deployment", "web", "tier=front")
	expect(t, p, "", `^deployment\.apps/web annotated\n$`, "annotate", "deployment", "web", "kubernetes.io/change-cause=first")
}

func kubectlRollouts(t *testing.T, p *plane.Plane) {
	expect(t, p, "", `successfully rolled out\n$`, "rollout", "status", "deployment/web")
	expect(t, p, "", `^deployment\.apps/web image updated\n$`, "set", "image", "deployment/web", "nginx=nginx:2")
	expect(t, p, "", `successfully rolled out\n$`, "rollout", "status", "deployment/web")
	expect(t, p, "", `(?s)^deployment\.apps/web with revision #2\nPod Template:\n.*Image:\tnginx:2\n`, "rollout", "history", "deployment/web", "--revision=2")
	expectFailure(t, p, `(?m)^error: unable to find specified revision 77 in history\n$`, "rollout", "undo", "deployment/web", "--to-revision=77")
	expect(t, p, "", `^deployment\.apps/web paused\n$`, "rollout", "pause", "deployment/web")
	expectFailure(t, p, `^error: deployments\.apps "web" is already paused\n$`, "rollout", "pause", "deployment/web")
	expectFailure(t, p, `(?m)^error: you cannot rollback a paused deployment; resume it first`, "rollout", "undo", "deployment/web")
	expect(t, p, "", `^deployment\.apps/web resumed\n$`, "rollout", "resume", "deployment/web")
	expect(t, p, "", `^deployment\.apps/web restarted\n$`, "rollout", "restart", "deployment/web")
	expect(t, p, "", `^deployment\.apps/web condition met\n$`, "wait", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=180s", "deployment/web")
	expectFailure(t, p, `^error: timed out waiting for the condition on deployments/web\n$`, "wait", "--for=condition=Nothing", "--timeout=1s", "deployment/web")
}

// kubectlConflicts has two editors of one object; the second must start over.
func kubectlConflicts(t *testing.T, p *plane.Plane) {
	p.Must(t, "", "create", "configmap", "edited", "--from-literal=a=b")
	first := p.Must(t, "", "get", "configmap", "edited", "-o", "yaml")
	expect(t, p, strings.Replace(first, "a: b", "a: c", 1), `^configmap/edited replaced\n$`, "replace", "-f", "-")
	expectFailureStdin(t, p, strings.Replace(first, "a: b", "a: d", 1), `^Error from server \(Conflict\): error when replacing "STDIN": Operation cannot be fulfilled on configmaps "edited": `+
		`the object has been modified; please apply your changes to the latest version and try again\n$`, "replace", "-f", "-")
	expectFailure(t, p, `^error: failed to create configmap: configmaps "edited" already exists\n$`, "create", "configmap", "edited")
	expect(t, p, "", `^configmap "edited" deleted( from default namespace)?\n$`, "delete", "configmap", "edited")
}

func kubectlPods(t *testing.T, p *plane.Plane) {
	pod := func(name, annotations, spec, container string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {%s}}\nspec: {%s containers: [{name: c, image: %s%s}]}\n---\n", name, annotations, spec, name, container)
	}
	p.Must(t, pod("crash", `simulated.garboard.io/exit-code: "3"`, "", "")+
		pod("done", `simulated.garboard.io/exit-code: "0"`, "restartPolicy: Never,", "")+
		pod("failed", `simulated.garboard.io/exit-code: "7"`, "restartPolicy: Never,", "")+
		pod("first", "simulated.garboard.io/exit-after.i: 1h", "initContainers: [{name: i, image: busybox}],", "")+
		pod("nopull", "simulated.garboard.io/fail-pull: not there", "", "")+
		pod("never", "", "", ", imagePullPolicy: Never")+
		pod("huge", "", "", `, resources: {requests: {cpu: "1000"}}`)+
		pod("speaks", `simulated.garboard.io/log: "one\ntwo\nthree"`, "", ""), "create", "-f", "-")
	for name, want := range map[string]string{
		"crash": `0/1 +CrashLoopBackOff +[1-9]\d* \(\S+ ago\)`, "done": `0/1 +Completed +0`, "failed": `0/1 +Error +0`, "first": `0/1 +Init:0/1 +0`,
		"nopull": `0/1 +(ErrImagePull|ImagePullBackOff) +0`, "never": `0/1 +ErrImageNeverPull +0`, "huge": `0/1 +Pending +0`, "speaks": `1/1 +Running +0`,
	} {
		pattern := regexp.MustCompile(`^` + name + ` +` + want + ` +\S+\n$`)
		plane.Eventually(t, "pod "+name, func(context.Context) error {
			if out := p.Must(t, "", "get", "pod", name, "--no-headers"); !pattern.MatchString(out) {
				return fmt.Errorf("%q is not %s", out, pattern)
			}
			return nil
		})
	}
	expect(t, p, "", `^false$`, "get", "pod", "first", "-o", "jsonpath={.status.initContainerStatuses[0].ready}")
	expect(t, p, "", `^PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled$`, "get", "pod", "speaks", "-o", "jsonpath={.status.conditions[*].type}")
	expectSoon(t, p, `FailedScheduling .*0/2 nodes are available: 2 Insufficient cpu\.`, "events", "--for", "pod/huge")
	expectSoon(t, p, `^two\nthree\n$`, "logs", "speaks", "--tail=2")
	expectFailure(t, p, `^Error from server \(BadRequest\): previous terminated container "c" in pod "speaks" not found\n$`, "logs", "speaks", "--previous")
	expectFailure(t, p, `container "c" in pod "first" is waiting to start: PodInitializing\n$`, "logs", "first", "-c", "c")
	for _, name := range []string{"done", "failed"} { // A finished pod is marked and removed at once, which races with the node agent.
		expect(t, p, "", `^pod "`+name+`" deleted( from default namespace)?\n$`, "delete", "pod", name)
	}
	expect(t, p, "", `^pod "speaks" force deleted( from default namespace)?\n$`, "delete", "pod", "speaks", "--force")
}

func kubectlNodes(t *testing.T, p *plane.Plane) {
	expect(t, p, "", `^node/node-2 cordoned\n$`, "cordon", "node-2")
	expect(t, p, "", `^node-2 +Ready,SchedulingDisabled +<none> `, "get", "node", "node-2", "--no-headers")
	expect(t, p, "", `^node/node-2 uncordoned\n$`, "uncordon", "node-2")
	expect(t, p, "", `^node/node-2 tainted\n$`, "taint", "node", "node-2", "a=b:NoSchedule")
	expect(t, p, "", `^node/node-2 untainted\n$`, "taint", "node", "node-2", "a-")
}

func kubectlNamespaces(t *testing.T, p *plane.Plane) {
	expectFailure(t, p, `^Error from server \(Forbidden\): namespaces "default" is forbidden: this namespace may not be deleted\n$`, "delete", "namespace", "default")
	expect(t, p, "", `^namespace/full created\n$`, "create", "namespace", "full")
	p.Must(t, web(), "create", "-n", "full", "-f", "-")
	expect(t, p, "", `^namespace "full" deleted\n$`, "delete", "namespace", "full")
	expectFailure(t, p, `^Error from server \(NotFound\): namespaces "full" not found\n$`, "get", "namespace", "full")
	expect(t, p, "", `^namespace/full created\n$`, "create", "namespace", "full")
	expect(t, p, "", `^$`, "get", "deployment,rs,pods", "-n", "full", "-o", "name")
	expect(t, p, "", `^deployment\.apps "web" deleted( from default namespace)?\n$`, "delete", "deployment", "web", "--cascade=foreground")
	expect(t, p, "", `^$`, "get", "rs,pods", "-l", "app=web", "-o", "name")
}
