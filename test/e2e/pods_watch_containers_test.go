//go:build containers

package e2e_test

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/test/e2e/plane"
)

func address(t *testing.T, text string) netip.Addr {
	t.Helper()
	parsed, err := netip.ParseAddr(text)
	if err != nil {
		t.Errorf("%q is not an address", text)
	}
	return parsed
}

// follow starts a kubectl that keeps printing. The returned function waits until it exits, and
// returns its output.
func (w *podWorld) follow(t *testing.T, args ...string) func() string {
	t.Helper()
	var out, fault bytes.Buffer
	cmd := w.Command(t.Context(), args...)
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return func() string {
		t.Helper()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, &fault)
			}
		case <-time.After(plane.Patience):
			_ = cmd.Process.Kill()
			err := <-done
			t.Fatalf("kubectl %s does not exit (killed: %v); it printed %q", strings.Join(args, " "), err, &out)
		}
		return out.String()
	}
}

// prepareProbes creates the files that the probes of the containers check.
func prepareProbes(t *testing.T, w *podWorld) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(w.host, "health"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.healthy(t, "ready", true)
	w.healthy(t, "alive", true)
}

func (w *podWorld) healthy(t *testing.T, name string, healthy bool) {
	t.Helper()
	path := filepath.Join(w.host, "health", name)
	err := os.WriteFile(path, []byte("ok\n"), 0o644)
	if !healthy {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// probeCases are about probes that succeed, fail and recover.
var probeCases = []podCase{{
	name: "readiness",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: changeable}
spec:
  volumes: [{name: health, hostPath: {path: "@HOST@/health"}}]
  containers:
  - name: main
    image: nginx:1.14.2
    ports: [{name: http, containerPort: 80}]
    volumeMounts: [{name: health, mountPath: /usr/share/nginx/html}]
    startupProbe: {tcpSocket: {port: http}, periodSeconds: 1, failureThreshold: 100, timeoutSeconds: 10}
    readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 1, failureThreshold: 2, timeoutSeconds: 10}
---
apiVersion: v1
kind: Pod
metadata: {name: unready}
spec:
  containers:
  - {name: main, image: "nginx:1.14.2", readinessProbe: {tcpSocket: {port: 81}, periodSeconds: 1, timeoutSeconds: 10}}
`,
	check: func(t *testing.T, w *podWorld) {
		before := w.ready(t, "changeable")
		w.row(t, "changeable", `1/1 +Running +0`)
		w.healthy(t, "ready", false)
		out := w.until(t, "changeable", "not ready", func(pod *corev1.Pod) bool { return !isReady(pod) })
		if c := condition(out, corev1.PodReady); c.Reason != "ContainersNotReady" || c.Message != "containers with unready status: [main]" {
			t.Errorf("the condition is %+v", c)
		}
		w.row(t, "changeable", `0/1 +Running +0`)
		w.event(t, "changeable", `^Warning Unhealthy Readiness probe failed: HTTP probe failed with statuscode: 404\n`)
		w.healthy(t, "ready", true)
		after := w.ready(t, "changeable")
		if id := container(before, "main").ContainerID; container(after, "main").ContainerID != id {
			t.Errorf("the container %s became %s", id, container(after, "main").ContainerID)
		}
		w.event(t, "unready", `^Warning Unhealthy Readiness probe failed: dial tcp .*:81: connect: connection refused\n`)
		w.row(t, "unready", `0/1 +Running +0`)
	},
}, {
	name: "liveness",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: mortal}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: health, hostPath: {path: "@HOST@/health"}}]
  containers:
  - name: main
    image: busybox:1.36
    command: [sleep, infinity]
    volumeMounts: [{name: health, mountPath: /health}]
    livenessProbe: {exec: {command: [cat, /health/alive]}, periodSeconds: 1, failureThreshold: 2, timeoutSeconds: 20}
`,
	check: func(t *testing.T, w *podWorld) {
		before := w.ready(t, "mortal")
		w.healthy(t, "alive", false)
		w.event(t, "mortal", `^Normal Killing Container main failed liveness probe, will be restarted\n`)
		w.healthy(t, "alive", true)
		after := w.until(t, "mortal", "restarted", func(pod *corev1.Pod) bool { return container(pod, "main").RestartCount > 0 && isReady(pod) })
		if container(before, "main").ContainerID == container(after, "main").ContainerID {
			t.Error("the container is the same")
		}
		if end := lastEnd(after, "main"); end.ExitCode != 137 {
			t.Errorf("it terminated with %+v", end)
		}
		w.event(t, "mortal", `^Warning Unhealthy Liveness probe failed: .*/health/alive`)
		w.row(t, "mortal", `1/1 +Running +[1-9] \(\S+ ago\)`)
	},
}}

// imageCases are about images that are present, pulled or unavailable.
var imageCases = []podCase{{
	name: "images",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: neverpull}
spec:
  containers: [{name: main, image: "nginx:1.25.5", imagePullPolicy: Never}]
---
apiVersion: v1
kind: Pod
metadata: {name: unknownimage}
spec:
  containers: [{name: main, image: "nowhere/nothing:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: badname}
spec:
  containers: [{name: main, image: "Not//A_Name"}]
---
apiVersion: v1
kind: Pod
metadata: {name: alwayspull}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "busybox:1.36", imagePullPolicy: Always, command: ["true"]}]
`,
	check: func(t *testing.T, w *podWorld) {
		w.row(t, "neverpull", `0/1 +ErrImageNeverPull +0`)
		w.event(t, "neverpull", `^Warning ErrImageNeverPull Container image "nginx:1\.25\.5" is not present with pull policy of Never\n`)
		w.row(t, "unknownimage", `0/1 +ImagePullBackOff +0`)
		w.event(t, "unknownimage", `^Warning Failed Failed to pull image "nowhere/nothing:1": rpc error: code = NotFound desc = `)
		w.event(t, "unknownimage", `^Warning Failed Error: ErrImagePull\n`)
		w.event(t, "unknownimage", `^Normal BackOff Back-off pulling image "nowhere/nothing:1"\n`)
		w.event(t, "unknownimage", `^Warning Failed Error: ImagePullBackOff\n`)
		res := w.Kubectl(t, "", "logs", "unknownimage")
		if want := `container "main" in pod "unknownimage" is waiting to start: trying and failing to pull image`; res.Code != 1 || !strings.Contains(res.Stderr, want) {
			t.Errorf("the log of a container without an image: exit code %d, %s", res.Code, res.Stderr)
		}
		w.row(t, "badname", `0/1 +InvalidImageName +0`)
		w.event(t, "alwayspull", `^Normal Pulled Successfully pulled image "busybox:1\.36" in `)
		w.event(t, "words", `^Normal Pulled (Container image "busybox:1\.36" already present on machine|Successfully pulled image "busybox:1\.36" in .*)\n`)
	},
}}

// logCases are the ways to read a log.
var logCases = []podCase{{
	name: "logs",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: busybox:1.36, command: [sh, -c, "echo early; sleep 1; echo aside >&2; sleep 3; echo late; sleep infinity"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: phoenix}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: w, emptyDir: {}}]
  containers:
  - {name: main, image: busybox:1.36, volumeMounts: [{name: w, mountPath: /w}],
     command: [sh, -c, "test -e /w/once && echo second && sleep infinity; touch /w/once; echo first; exit 7"]}
`,
	check: func(t *testing.T, w *podWorld) {
		w.log(t, `^early\naside\nlate\n$`, "talker")
		w.log(t, `^late\n$`, "talker", "--tail=1")
		w.log(t, `^early\naside\nlate\n$`, "talker", "--since=1h")
		w.log(t, `^early\n$`, "talker", "--limit-bytes=6")
		stamped := strings.Split(strings.TrimSpace(w.Must(t, "", "logs", "talker", "--timestamps")), "\n")
		if len(stamped) != 3 {
			t.Fatalf("with timestamps the log is %q", stamped)
		}
		moment, _, _ := strings.Cut(stamped[2], " ")
		at, err := time.Parse(time.RFC3339Nano, moment)
		if err != nil {
			t.Fatal(err)
		}
		w.log(t, `^late\n$`, "talker", "--since-time="+at.Truncate(time.Second).Format(time.RFC3339))
		res := w.Kubectl(t, "", "logs", "talker", "--previous")
		if want := `previous terminated container "main" in pod "talker" not found`; res.Code != 1 || !strings.Contains(res.Stderr, want) {
			t.Errorf("the log of a missing previous container: exit code %d, %s", res.Code, res.Stderr)
		}
		w.log(t, `^second\n$`, "phoenix")
		w.log(t, `^first\n$`, "phoenix", "--previous")
		// A followed log continues with new lines, and ends with the container.
		w.Must(t, "", "run", "ticker", "--image=busybox:1.36", "--restart=Never", "--", "sh", "-c", "echo one; sleep 2; echo two; sleep 2; echo three")
		w.until(t, "ticker", "started", func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodPending })
		if log := w.follow(t, "logs", "-f", "ticker")(); log != "one\ntwo\nthree\n" {
			t.Errorf("the followed log is %q", log)
		}
	},
}}
