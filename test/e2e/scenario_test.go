package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/test/e2e/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScenario runs the whole path from `kubectl create` to a running container and back, with the
// simulated runtime.
func TestScenario(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	scenario(t, p)
}

// TestScenarioOverNATS is TestScenario with all calls of the services over NATS.
func TestScenarioOverNATS(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--api-transport", "nats")
	scenario(t, p)
}

// scenario does what a new user does with a Deployment, and checks that the output is that of
// Kubernetes.
func scenario(t *testing.T, p *plane.Plane) {
	manifest := "testdata/nginx.yaml"
	watched := watchPods(t, p)

	expect(t, p, "", `^deployment\.apps/nginx-deployment created\n$`, "create", "-f", manifest)
	expectFailure(t, p, `^Error from server \(AlreadyExists\): error when creating "testdata/nginx\.yaml": deployments\.apps "nginx-deployment" already exists\n$`,
		"create", "-f", manifest)

	running(t, p, 1)
	expect(t, p, "", `^NAME +READY +STATUS +RESTARTS +AGE\nnginx-deployment-[a-z0-9]{8,10}-[a-z0-9]{5} +1/1 +Running +0 +\d+\S*\n$`,
		"get", "po", "-l", "app=nginx")
	expect(t, p, "", `^NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES\n`+
		`nginx-deployment-\S+ +1/1 +Running +0 +\S+ +\d+\.\d+\.\d+\.\d+ +\S+ +<none> +<none>\n$`, "get", "po", "-l", "app=nginx", "-o", "wide")
	expectSoon(t, p, `^NAME +READY +UP-TO-DATE +AVAILABLE +AGE\nnginx-deployment +1/1 +1 +1 +\S+\n$`, "get", "deployment", "nginx-deployment")
	expectSoon(t, p, `^NAME +DESIRED +CURRENT +READY +AGE\nnginx-deployment-\S+ +1 +1 +1 +\S+\n$`, "get", "rs", "-l", "app=nginx")
	yamlOfPods(t, p)

	expectSoon(t, p, `(?s)^Name: +nginx-deployment\nNamespace: +default\n.*`+
		`Replicas: +1 desired \| 1 updated \| 1 total \| 1 available \| 0 unavailable\nStrategyType: +RollingUpdate\n.*`+
		`RollingUpdateStrategy: +25% max unavailable, 25% max surge\n.*`+
		`Available +True +MinimumReplicasAvailable\n +Progressing +True +NewReplicaSetAvailable\n.*`+
		`ScalingReplicaSet.*Scaled up replica set nginx-deployment-\S+ from 0 to 1\n`, "describe", "deployment", "nginx-deployment")
	plane.Eventually(t, "the pod's Events", func(context.Context) error {
		out := p.Must(t, "", "describe", "pod", "-l", "app=nginx")
		for _, reason := range []string{"Scheduled", "Pull", "Created", "Started"} {
			if !regexp.MustCompile(`\n  Normal +` + reason).MatchString(out) {
				return fmt.Errorf("no %s Event in\n%s", reason, out)
			}
		}
		if !strings.Contains(out, "Successfully assigned default/nginx-deployment-") {
			return fmt.Errorf("no assignment in\n%s", out)
		}
		return nil
	})
	expectSoon(t, p, `\S`, "logs", "deployment/nginx-deployment")
	expect(t, p, "", `(?s)^GROUP: +apps\nKIND: +Deployment\nVERSION: +v1\n\nFIELD: strategy <DeploymentStrategy>\n.*rollingUpdate\s+<RollingUpdateDeployment>\n`,
		"explain", "deployment.spec.strategy")

	expect(t, p, "", `^deployment\.apps/nginx-deployment scaled\n$`, "scale", "deployment/nginx-deployment", "--replicas=3")
	running(t, p, 3)

	expect(t, p, "", `^deployment\.apps/nginx-deployment image updated\n$`, "set", "image", "deployment/nginx-deployment", "nginx=nginx:1.16.1")
	expect(t, p, "", `deployment "nginx-deployment" successfully rolled out\n$`, "rollout", "status", "deployment/nginx-deployment")
	expect(t, p, "", `^deployment\.apps/nginx-deployment \nREVISION +CHANGE-CAUSE\n1 +<none>\n2 +<none>\n\n$`, "rollout", "history", "deployment/nginx-deployment")
	if image := deployed(t, p).Spec.Template.Spec.Containers[0].Image; image != "nginx:1.16.1" {
		t.Errorf("image %q after set image", image)
	}
	expect(t, p, "", `^deployment\.apps/nginx-deployment rolled back\n$`, "rollout", "undo", "deployment/nginx-deployment")
	expect(t, p, "", `deployment "nginx-deployment" successfully rolled out\n$`, "rollout", "status", "deployment/nginx-deployment")
	expect(t, p, "", `^deployment\.apps/nginx-deployment \nREVISION +CHANGE-CAUSE\n2 +<none>\n3 +<none>\n\n$`, "rollout", "history", "deployment/nginx-deployment")
	if image := deployed(t, p).Spec.Template.Spec.Containers[0].Image; image != "nginx:1.14.2" {
		t.Errorf("image %q after rollout undo", image)
	}
	expect(t, p, "", `^deployment\.apps/nginx-deployment condition met\n$`, "wait", "--for=condition=Available", "--timeout=180s", "deployment/nginx-deployment")

	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "replicas: 1", "replicas: 2", 1)
	expect(t, p, changed, `^deployment\.apps/nginx-deployment configured\n$`, "apply", "-f", "-")
	expect(t, p, changed, `^deployment\.apps/nginx-deployment unchanged\n$`, "apply", "-f", "-")
	running(t, p, 2)
	misspelt := strings.Replace(changed, "replicas: 2", "replicsa: 2", 1)
	expectFailureStdin(t, p, misspelt, `strict decoding error: unknown field "spec\.replicsa"`, "apply", "-f", "-")

	expect(t, p, "", `^deployment\.apps "nginx-deployment" deleted( from default namespace)?\n$`, "delete", "deployment", "nginx-deployment", "--wait")
	plane.Eventually(t, "the pods to go", func(context.Context) error {
		if left := p.Must(t, "", "get", "po,rs", "-l", "app=nginx", "-o", "name"); left != "" {
			return fmt.Errorf("still there: %s", left)
		}
		return nil
	})
	if res := p.Kubectl(t, "", "get", "po", "-l", "app=nginx"); res.Stdout != "" || res.Stderr != "No resources found in default namespace.\n" {
		t.Errorf("get po without pods printed %q and %q", res.Stdout, res.Stderr)
	}
	watched(t)
}

// watchPods runs `kubectl get -w` for the pods. The returned function ends the watch and checks
// that it showed pods come and go.
func watchPods(t *testing.T, p *plane.Plane) func(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := p.Command(ctx, "get", "po", "-l", "app=nginx", "-w")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan []string, 1)
	go func() {
		var all []string
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			all = append(all, scanner.Text())
		}
		lines <- all
	}()
	end := func() []string {
		cancel()
		all := <-lines
		_ = cmd.Wait()
		return all
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			end()
		}
	})
	return func(t *testing.T) {
		ended = true
		all := strings.Join(end(), "\n")
		for _, want := range []string{`^NAME +READY +STATUS +RESTARTS +AGE\n`, `0/1 +Pending`, `0/1 +ContainerCreating`, `1/1 +Running`, `Terminating`} {
			if !regexp.MustCompile(want).MatchString(all) {
				t.Errorf("kubectl get -w did not print %s:\n%s", want, all)
			}
		}
	}
}

// running waits until exactly n pods exist, and all of them run.
func running(t *testing.T, p *plane.Plane, n int) {
	t.Helper()
	plane.Eventually(t, fmt.Sprintf("%d running pods", n), func(context.Context) error {
		out := p.Must(t, "", "get", "po", "-l", "app=nginx", "--no-headers")
		if count := len(regexp.MustCompile(`(?m)^\S+ +1/1 +Running `).FindAllString(out, -1)); count != n || strings.Count(out, "\n") != n {
			return fmt.Errorf("%d of them:\n%s", count, out)
		}
		return nil
	})
}

func deployed(t *testing.T, p *plane.Plane) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict([]byte(p.Must(t, "", "get", "deployment", "nginx-deployment", "-o", "yaml")), deployment); err != nil {
		t.Fatalf("reading the deployment: %v", err)
	}
	return deployment
}

func yamlOfPods(t *testing.T, p *plane.Plane) {
	t.Helper()
	var list struct {
		APIVersion string       `json:"apiVersion"`
		Kind       string       `json:"kind"`
		Items      []corev1.Pod `json:"items"`
	}
	out := p.Must(t, "", "get", "po", "-l", "app=nginx", "-o", "yaml")
	if err := yaml.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("reading the pods: %v\n%s", err, out)
	}
	if list.Kind != "List" || list.APIVersion != "v1" || len(list.Items) != 1 {
		t.Fatalf("got\n%s", out)
	}
	pod := list.Items[0]
	if pod.Status.Phase != corev1.PodRunning || pod.Status.QOSClass != corev1.PodQOSBestEffort || pod.Spec.ServiceAccountName != "default" ||
		len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].Kind != "ReplicaSet" || pod.Spec.DNSPolicy != corev1.DNSClusterFirst {
		t.Errorf("the pod differs from what Kubernetes would return:\n%s", out)
	}
}

// expect runs kubectl, which must succeed with output that matches the pattern.
func expect(t *testing.T, p *plane.Plane, stdin, pattern string, args ...string) {
	t.Helper()
	res := p.Kubectl(t, stdin, args...)
	if res.Code != 0 || !regexp.MustCompile(pattern).MatchString(res.Stdout) {
		t.Errorf("kubectl %s: exit code %d, want 0\n%s%s-- want\n%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr, pattern)
	}
}

// expectSoon runs kubectl until it succeeds with output that matches the pattern. It is for
// consequences that follow asynchronously.
func expectSoon(t *testing.T, p *plane.Plane, pattern string, args ...string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	plane.Eventually(t, "kubectl "+strings.Join(args, " "), func(context.Context) error {
		if res := p.Kubectl(t, "", args...); res.Code != 0 || !want.MatchString(res.Stdout) {
			return fmt.Errorf("exit code %d, want 0\n%s%s-- want\n%s", res.Code, res.Stdout, res.Stderr, pattern)
		}
		return nil
	})
}

// expectFailure runs kubectl, which must fail with exit code 1 and an error that matches the
// pattern.
func expectFailure(t *testing.T, p *plane.Plane, pattern string, args ...string) {
	t.Helper()
	expectFailureStdin(t, p, "", pattern, args...)
}

func expectFailureStdin(t *testing.T, p *plane.Plane, stdin, pattern string, args ...string) {
	t.Helper()
	res := p.Kubectl(t, stdin, args...)
	if res.Code != 1 || !regexp.MustCompile(pattern).MatchString(res.Stderr) {
		t.Errorf("kubectl %s: exit code %d, want 1\n%s%s-- want\n%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr, pattern)
	}
}
