//go:build containers

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/test/e2e/plane"
)

// orderCases are about the order in which containers start.
var orderCases = []podCase{{
	name: "init containers",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: ordered}
spec:
  restartPolicy: Never
  volumes: [{name: w, emptyDir: {}}]
  initContainers:
  - {name: first, image: busybox:1.36, command: [sh, -c, "sleep 1; echo first >> /w/order"], volumeMounts: [{name: w, mountPath: /w}]}
  - {name: second, image: busybox:1.36, command: [sh, -c, "echo second >> /w/order"], volumeMounts: [{name: w, mountPath: /w}]}
  - {name: side, image: "nginx:1.14.2", restartPolicy: Always}
  containers:
  - {name: main, image: busybox:1.36, command: [sh, -c, "echo main >> /w/order; cat /w/order"], volumeMounts: [{name: w, mountPath: /w}]}
---
apiVersion: v1
kind: Pod
metadata: {name: initfails}
spec:
  restartPolicy: Never
  initContainers: [{name: bad, image: busybox:1.36, command: [sh, -c, "exit 9"]}]
  containers: [{name: main, image: busybox:1.36, command: [echo, never]}]
---
apiVersion: v1
kind: Pod
metadata: {name: initloops}
spec:
  initContainers: [{name: bad, image: busybox:1.36, command: [sh, -c, "exit 9"]}]
  containers: [{name: main, image: busybox:1.36, command: [echo, never]}]
---
apiVersion: v1
kind: Pod
metadata: {name: initwaits}
spec:
  terminationGracePeriodSeconds: 1
  initContainers: [{name: slow, image: busybox:1.36, command: [sleep, infinity]}, {name: next, image: busybox:1.36, command: ["true"]}]
  containers: [{name: main, image: busybox:1.36, command: [echo, never]}]
`,
	check: func(t *testing.T, w *podWorld) {
		pod := w.phase(t, "ordered", corev1.PodSucceeded)
		w.log(t, `^first\nsecond\nmain\n$`, "ordered", "-c", "main")
		for _, name := range []string{"first", "second", "main", "side"} {
			if end := ended(pod, name); end.Reason != "Completed" || end.ExitCode != 0 {
				t.Errorf("%s terminated with %+v", name, end)
			}
		}
		if first, second := ended(pod, "first"), ended(pod, "second"); second.StartedAt.Before(&first.FinishedAt) {
			t.Errorf("the second started at %v, the first ended at %v", second.StartedAt, first.FinishedAt)
		}
		w.phase(t, "initfails", corev1.PodFailed)
		w.row(t, "initfails", `0/1 +Init:Error +0`)
		w.row(t, "initloops", `0/1 +Init:CrashLoopBackOff +[1-9] \(\S+ ago\)`)
		w.row(t, "initwaits", `0/1 +Init:0/2 +0`)
		res := w.Kubectl(t, "", "logs", "initwaits", "-c", "main")
		if want := `container "main" in pod "initwaits" is waiting to start: PodInitializing`; res.Code != 1 || !strings.Contains(res.Stderr, want) {
			t.Errorf("the log of a waiting container: exit code %d, %s", res.Code, res.Stderr)
		}
	},
}, {
	name: "hooks",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: hooked}
spec:
  volumes: [{name: host, hostPath: {path: "@HOST@/hooks", type: DirectoryOrCreate}}]
  containers:
  - name: main
    image: nginx:1.14.2
    volumeMounts: [{name: host, mountPath: /usr/share/nginx/html}]
    lifecycle:
      postStart: {exec: {command: [/usr/sbin/nginx, -v]}}
      preStop: {httpGet: {path: /bye, port: 80}}
---
apiVersion: v1
kind: Pod
metadata: {name: badhook}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox:1.36, command: [sleep, infinity], lifecycle: {postStart: {exec: {command: ["false"]}}}}
`,
	check: func(t *testing.T, w *podWorld) {
		w.ready(t, "hooked")
		w.event(t, "badhook", `^Warning FailedPostStartHook `)
		log := w.follow(t, "logs", "-f", "hooked")
		w.Must(t, "", "delete", "pod", "hooked")
		if text := log(); !strings.Contains(text, `"GET /bye HTTP/1.1"`) || !strings.Contains(text, "exiting") {
			t.Errorf("the log of the pod with a preStop hook is %q", text)
		}
	},
}}

// endCases are about how containers end, and what follows.
var endCases = []podCase{{
	name: "restart policies",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec:
  containers: [{name: main, image: busybox:1.36, command: [sh, -c, "echo dying; exit 3"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: fails}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: busybox:1.36, command: [sh, -c, "exit 5"]}
  - {name: fine, image: busybox:1.36, command: ["true"]}
---
apiVersion: v1
kind: Pod
metadata: {name: retries}
spec:
  restartPolicy: OnFailure
  volumes: [{name: w, emptyDir: {}}]
  containers:
  - {name: main, image: busybox:1.36, command: [sh, -c, "test -e /w/once && exit 0; touch /w/once; exit 1"], volumeMounts: [{name: w, mountPath: /w}]}
---
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: 3
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: busybox:1.36, command: [sleep, infinity]}]
`,
	check: func(t *testing.T, w *podWorld) {
		w.row(t, "crash", `0/1 +CrashLoopBackOff +[1-9] \(\S+ ago\)`)
		pod := w.until(t, "crash", "restarted", func(pod *corev1.Pod) bool { return container(pod, "main").RestartCount > 0 })
		if end := lastEnd(pod, "main"); end.ExitCode != 3 || end.Reason != "Error" {
			t.Errorf("crash terminated with %+v", end)
		}
		w.event(t, "crash", `^Warning BackOff Back-off restarting failed container main in pod crash_default\(`+string(pod.UID)+`\)`)
		w.log(t, `^dying\n$`, "crash", "--previous")
		failed := w.phase(t, "fails", corev1.PodFailed)
		w.row(t, "fails", `0/2 +Error +0`)
		if end := ended(failed, "main"); end.ExitCode != 5 || end.Reason != "Error" || !strings.HasPrefix(end.ContainerID, "containerd://") {
			t.Errorf("fails terminated with %+v", end)
		}
		retried := w.phase(t, "retries", corev1.PodSucceeded)
		w.row(t, "retries", `0/1 +Completed +1( \(\S+ ago\))?`)
		if end := ended(retried, "main"); container(retried, "main").RestartCount != 1 || end.ExitCode != 0 {
			t.Errorf("retries has %+v", container(retried, "main"))
		}
		limited := w.phase(t, "limited", corev1.PodFailed)
		if limited.Status.Reason != "DeadlineExceeded" {
			t.Errorf("limited has %+v", limited.Status)
		}
	},
}, {
	name: "memory",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  containers: [{name: main, image: busybox:1.36, command: [fill, "200"], resources: {limits: {memory: 48Mi, cpu: "1"}, requests: {cpu: 10m}}}]
`,
	check: func(t *testing.T, w *podWorld) {
		// The runtime may miss the kernel's OOM kill, and so may report Error for one of the
		// terminations.
		pod := w.until(t, "greedy", "out of memory", func(pod *corev1.Pod) bool {
			return ended(pod, "main").Reason == "OOMKilled" || lastEnd(pod, "main").Reason == "OOMKilled"
		})
		for _, end := range []corev1.ContainerStateTerminated{ended(pod, "main"), lastEnd(pod, "main")} {
			if end.Reason != "" && end.ExitCode != 137 {
				t.Errorf("greedy terminated with %+v", end)
			}
		}
		if pod.Status.QOSClass != corev1.PodQOSBurstable {
			t.Errorf("its QoS class is %s", pod.Status.QOSClass)
		}
	},
}, {
	name: "termination messages",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: lastwords}
spec:
  restartPolicy: Never
  containers:
  - {name: file, image: busybox:1.36, command: [sh, -c, "echo goodbye > /dev/termination-log"]}
  - {name: path, image: busybox:1.36, command: [sh, -c, "echo elsewhere > /tmp/words; exit 1"], terminationMessagePath: /tmp/words}
  - {name: log, image: busybox:1.36, command: [sh, -c, "echo one; echo two; exit 1"], terminationMessagePolicy: FallbackToLogsOnError}
  - {name: none, image: busybox:1.36, command: [sh, -c, "echo one; exit 1"]}
`,
	check: func(t *testing.T, w *podWorld) { w.lastWords(t) },
}, {
	name: "grace",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: polite, finalizers: [garboard.io/test]}
spec:
  terminationGracePeriodSeconds: 600
  containers: [{name: main, image: "nginx:1.14.2"}]
---
apiVersion: v1
kind: Pod
metadata: {name: stubborn, finalizers: [garboard.io/test]}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{name: main, image: busybox:1.36, command: [sleep, infinity]}]
`,
	check: func(t *testing.T, w *podWorld) {
		// The finalizers keep the pods, so that the test can see how they ended.
		w.ready(t, "polite")
		w.ready(t, "stubborn")
		w.Must(t, "", "delete", "pod", "polite", "stubborn", "--wait=false")
		polite := w.until(t, "polite", "ended", func(pod *corev1.Pod) bool { return ended(pod, "main").Reason != "" })
		if end := ended(polite, "main"); end.ExitCode != 0 || end.Reason != "Completed" {
			t.Errorf("polite terminated with %+v", end)
		}
		stubborn := w.until(t, "stubborn", "ended", func(pod *corev1.Pod) bool { return ended(pod, "main").Reason != "" })
		if end := ended(stubborn, "main"); end.ExitCode != 137 || end.Reason != "Error" {
			t.Errorf("stubborn terminated with %+v", end)
		}
		w.event(t, "stubborn", `^Normal Killing Stopping container main\n`)
		for _, name := range []string{"polite", "stubborn"} {
			w.Must(t, "", "patch", "pod", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			plane.Eventually(t, name+" to go", func(context.Context) error {
				if pod := w.pod(t, name); pod != nil {
					return fmt.Errorf("it has %+v", pod.ObjectMeta)
				}
				return nil
			})
		}
	},
}}

// lastWords checks the termination messages of the containers of the pod lastwords.
func (w *podWorld) lastWords(t *testing.T) {
	t.Helper()
	pod := w.phase(t, "lastwords", corev1.PodFailed)
	for name, want := range map[string]string{"file": "goodbye\n", "path": "elsewhere\n", "log": "one\ntwo\n", "none": ""} {
		if end := ended(pod, name); end.Message != want {
			t.Errorf("the message of %s is %q, want %q", name, end.Message, want)
		}
	}
}
