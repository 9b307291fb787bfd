//go:build containers

package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// configurationCases are about the configuration of containers: commands, environment, users,
// addresses.
var configurationCases = []podCase{{
	name: "environment",
	manifest: `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast, LEVEL: "3"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: sesame, TOKEN: opaque}
---
apiVersion: v1
kind: Pod
metadata:
  name: environment
  labels: {app: env}
  annotations: {note: hello}
spec:
  restartPolicy: Never
  containers:
  - name: env
    image: busybox:1.36
    command: [env]
    envFrom:
    - {prefix: CM_, configMapRef: {name: settings}}
    - {secretRef: {name: keys}}
    - {configMapRef: {name: none, optional: true}}
    env:
    - {name: PLAIN, value: plain}
    - {name: JOINED, value: "$(PLAIN)-$(CM_LEVEL)-$(NONE)-$$(PLAIN)"}
    - {name: LEVEL_OF_NOTHING, valueFrom: {configMapKeyRef: {name: settings, key: none, optional: true}}}
    - {name: MODE, valueFrom: {configMapKeyRef: {name: settings, key: mode}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: keys, key: password}}}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['note']"}}}
    - {name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    resources:
      requests: {cpu: 50m}
      limits: {memory: 64Mi}
`,
	check: func(t *testing.T, w *podWorld) {
		pod := w.phase(t, "environment", corev1.PodSucceeded)
		w.row(t, "environment", "0/1 +Completed +0")
		got := map[string]string{}
		for line := range strings.Lines(w.Must(t, "", "logs", "environment")) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			got[name] = value
		}
		for name, want := range map[string]string{
			"PLAIN": "plain", "JOINED": "plain-3-$(NONE)-$(PLAIN)", "CM_mode": "fast", "CM_LEVEL": "3", "TOKEN": "opaque",
			"MODE": "fast", "PASSWORD": "sesame", "POD": "environment", "NAMESPACE": "default", "LABEL": "env", "NOTE": "hello",
			"UID": string(pod.UID), "NODE": pod.Spec.NodeName, "ACCOUNT": "default", "HOST_IP": pod.Status.HostIP,
			"MEMORY": "64", "CPU": "50", "HOSTNAME": "environment", "KUBERNETES_SERVICE_PORT": "443",
		} {
			if got[name] != want {
				t.Errorf("%s is %q, want %q", name, got[name], want)
			}
		}
		if ip := got["IP"]; !w.containers.Subnet().Contains(address(t, ip)) {
			t.Errorf("IP is %q", ip)
		}
		if value, set := got["LEVEL_OF_NOTHING"]; set {
			t.Errorf("a missing optional key has the value %q", value)
		}
	},
}, {
	name: "command and arguments",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: words}
spec:
  restartPolicy: Never
  hostname: captain
  securityContext: {runAsUser: 1234, runAsGroup: 55}
  hostAliases: [{ip: 10.1.2.3, hostnames: [harbour]}]
  containers:
  - {name: both, image: busybox:1.36, command: [echo], args: ["$(WORD)", "two  words"], env: [{name: WORD, value: one}]}
  - {name: args, image: busybox:1.36, args: [sh, -c, "id; pwd; hostname; cat /etc/hosts"], workingDir: /tmp}
`,
	check: func(t *testing.T, w *podWorld) {
		w.phase(t, "words", corev1.PodSucceeded)
		w.row(t, "words", "0/2 +Completed +0")
		w.log(t, `^one two  words\n$`, "words", "-c", "both")
		w.log(t, `(?s)^uid=1234 gid=55\n/tmp\ncaptain\n.*\d\tcaptain\n.*10\.1\.2\.3\tharbour\n$`, "words", "-c", "args")
		res := w.Kubectl(t, "", "logs", "words", "-c", "none")
		if res.Code != 1 || !strings.Contains(res.Stderr, "container none is not valid for pod words") {
			t.Errorf("the log of an unknown container: exit code %d, %s", res.Code, res.Stderr)
		}
	},
}, {
	name: "missing references",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: incomplete}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox:1.36, command: [sh, -c, "echo $LATE; sleep infinity"],
     env: [{name: LATE, valueFrom: {configMapKeyRef: {name: late, key: word}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: rootless}
spec:
  containers: [{name: main, image: busybox:1.36, command: [sleep, infinity], securityContext: {runAsNonRoot: true}}]
`,
	check: func(t *testing.T, w *podWorld) {
		w.row(t, "incomplete", "0/1 +CreateContainerConfigError +0")
		w.event(t, "incomplete", `^Warning Failed Error: configmap "late" not found\n`)
		w.row(t, "rootless", "0/1 +CreateContainerConfigError +0")
		w.event(t, "rootless", `^Warning Failed Error: container has runAsNonRoot and image will run as root`)
		w.Must(t, "", "create", "configmap", "late", "--from-literal=word=found")
		w.ready(t, "incomplete")
		w.log(t, `^found\n$`, "incomplete")
	},
}, {
	name: "two pods talk",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  containers: [{name: nginx, image: "nginx:1.14.2", ports: [{containerPort: 80}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: onhost}
spec:
  hostNetwork: true
  restartPolicy: Never
  containers: [{name: main, image: busybox:1.36, command: [hostname]}]
`,
	check: func(t *testing.T, w *podWorld) {
		server := w.ready(t, "server")
		w.Must(t, "", "run", "client", "--image=busybox:1.36", "--restart=OnFailure", "--", "wget", "-q", "-O", "-", "http://"+server.Status.PodIP+"/")
		client := w.phase(t, "client", corev1.PodSucceeded)
		w.log(t, `Welcome to nginx!`, "client")
		w.log(t, regexp.QuoteMeta(client.Status.PodIP)+` - - .*"GET / HTTP/1.1" 200`, "server")
		pod := w.phase(t, "onhost", corev1.PodSucceeded)
		if pod.Status.PodIP != pod.Status.HostIP {
			t.Errorf("a pod on the host's network has the address %s, the host %s", pod.Status.PodIP, pod.Status.HostIP)
		}
		name, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		w.log(t, "^"+regexp.QuoteMeta(name)+"\n$", "onhost")
	},
}, {
	name: "unsupported field",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: unsupported}
spec:
  containers: [{name: main, image: busybox:1.36, command: [sleep, infinity], volumeMounts: [{name: disk, mountPath: /disk}]}]
  volumes: [{name: disk, nfs: {server: 192.0.2.1, path: /}}]
`,
	check: func(t *testing.T, w *podWorld) {
		w.event(t, "unsupported", `^Warning UnsupportedField this node agent does not support: spec\.volumes\[0\]\.nfs\n`)
		pod := w.until(t, "unsupported", "refused", func(pod *corev1.Pod) bool {
			return condition(pod, "garboard.io/SpecSupported").Status == corev1.ConditionFalse
		})
		if c := condition(pod, "garboard.io/SpecSupported"); !strings.Contains(c.Message, "spec.volumes[0].nfs") {
			t.Errorf("got condition %+v", c)
		}
		w.row(t, "unsupported", "0/1 +CreateContainerConfigError +0")
	},
}}

// volumeCases are about the volumes that containers read and write.
var volumeCases = []podCase{{
	name: "volumes",
	manifest: `
apiVersion: v1
kind: ConfigMap
metadata: {name: pages}
data: {index: "a page\n", other: "another\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: certificate}
stringData: {key: "very secret\n"}
---
apiVersion: v1
kind: Pod
metadata: {name: volumes, labels: {tier: lower}}
spec:
  restartPolicy: Never
  volumes:
  - {name: pages, configMap: {name: pages, items: [{key: index, path: deep/index.html}]}}
  - {name: certificate, secret: {secretName: certificate, defaultMode: 0400}}
  - {name: absent, configMap: {name: absent, optional: true}}
  - {name: scratch, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: host, hostPath: {path: "@HOST@/shared", type: DirectoryOrCreate}}
  - name: all
    projected:
      sources:
      - {configMap: {name: pages, items: [{key: other, path: other}]}}
      - {secret: {name: certificate}}
      - {serviceAccountToken: {path: token, audience: harbour, expirationSeconds: 3600}}
      - {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  initContainers:
  - name: writer
    image: busybox:1.36
    command: [sh, -c, "echo from the writer > /scratch/note; echo sub > /scratch/sub; echo in memory > /memory/note; echo from the container > /host/answer"]
    volumeMounts: [{name: scratch, mountPath: /scratch}, {name: memory, mountPath: /memory}, {name: host, mountPath: /host}]
  containers:
  - name: reader
    image: busybox:1.36
    command: [sh, -c, "cat /pages/deep/index.html /keys/key /scratch/note /sub /memory/note /all/other /all/key /all/labels; ls /pages /absent"]
    volumeMounts:
    - {name: pages, mountPath: /pages}
    - {name: absent, mountPath: /absent}
    - {name: certificate, mountPath: /keys, readOnly: true}
    - {name: scratch, mountPath: /scratch}
    - {name: scratch, mountPath: /sub, subPath: sub}
    - {name: memory, mountPath: /memory}
    - {name: all, mountPath: /all}
  - name: account
    image: busybox:1.36
    command: [sh, -c, "ls /var/run/secrets/kubernetes.io/serviceaccount; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace"]
  - name: token
    image: busybox:1.36
    command: [cat, /all/token]
    volumeMounts: [{name: all, mountPath: /all}]
  - name: readonly
    image: busybox:1.36
    command: [sh, -c, "echo x > /scratch/x && echo written || echo refused"]
    volumeMounts: [{name: scratch, mountPath: /scratch, readOnly: true}]
`,
	check: func(t *testing.T, w *podWorld) {
		pod := w.phase(t, "volumes", corev1.PodSucceeded)
		w.row(t, "volumes", "0/4 +Completed +0")
		w.log(t, `^a page\nvery secret\nfrom the writer\nsub\nin memory\nanother\nvery secret\ntier="lower"deep\n$`, "volumes", "-c", "reader")
		w.log(t, `^ca\.crt\nnamespace\ntoken\ndefault\n?$`, "volumes", "-c", "account")
		w.log(t, `(?m)^refused$`, "volumes", "-c", "readonly")
		if answer, err := os.ReadFile(filepath.Join(w.host, "shared", "answer")); err != nil || string(answer) != "from the container\n" {
			t.Errorf("the host's folder has %q, %v", answer, err)
		}
		parts := strings.Split(strings.TrimSpace(w.Must(t, "", "logs", "volumes", "-c", "token")), ".")
		if len(parts) != 3 {
			t.Fatalf("the token has %d parts", len(parts))
		}
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		var claims struct {
			Audience   []string                                 `json:"aud"`
			Subject    string                                   `json:"sub"`
			Kubernetes struct{ Pod struct{ Name, UID string } } `json:"kubernetes.io"`
		}
		if err := json.Unmarshal(payload, &claims); err != nil {
			t.Fatal(err)
		}
		if len(claims.Audience) != 1 || claims.Audience[0] != "harbour" || claims.Subject != "system:serviceaccount:default:default" ||
			claims.Kubernetes.Pod.Name != "volumes" || claims.Kubernetes.Pod.UID != string(pod.UID) {
			t.Errorf("the token's claims are %s", payload)
		}
	},
}, {
	name: "unavailable volumes",
	manifest: `
apiVersion: v1
kind: Pod
metadata: {name: nohost}
spec:
  containers: [{name: main, image: busybox:1.36, command: [sleep, infinity], volumeMounts: [{name: host, mountPath: /host}]}]
  volumes: [{name: host, hostPath: {path: "@HOST@/none", type: Directory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: nosecret}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: busybox:1.36, command: [sh, -c, "cat /s/word; echo; sleep infinity"], volumeMounts: [{name: s, mountPath: /s}]}]
  volumes: [{name: s, secret: {secretName: latesecret}}]
`,
	check: func(t *testing.T, w *podWorld) {
		w.row(t, "nohost", "0/1 +ContainerCreating +0")
		w.event(t, "nohost", `^Warning FailedMount MountVolume\.SetUp failed for volume "host" : hostPath type check failed: `)
		w.event(t, "nosecret", `^Warning FailedMount MountVolume\.SetUp failed for volume "s" : secret "latesecret" not found\n`)
		w.Must(t, "", "create", "secret", "generic", "latesecret", "--from-literal=word=found")
		w.ready(t, "nosecret")
		w.log(t, `^found\n$`, "nosecret")
	},
}}
