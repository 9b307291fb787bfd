package e2e_test

// runSession runs pods, exposes objects, reads logs and debugs.
func runSession() session {
	return session{name: "run", steps: concat(runPods(), exposeAll(), readLogs(), debugPods())}
}

func runPods() []step {
	return []step{
		{run: "run web --image=nginx:1 --port=80 --expose", out: "…/web created\n…/web created"},
		{run: "get pod,service web --show-labels", out: `
NAME      READY   STATUS   RESTARTS   AGE   LABELS
pod/web   …   …   0   …   run=web

NAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE   LABELS
service/web   ClusterIP   10.…   <none>   80/TCP   …   <none>
`},
		{run: "wait --for=condition=Ready pod/web --timeout=150s", out: "pod/web condition met"},
		{run: "run web --image=nginx", code: 1, err: `Error from server (AlreadyExists): pods "web" already exists`},
		{run: "run dry --image=nginx --dry-run=client -o yaml", out: `
apiVersion: v1
kind: Pod
metadata:
⋮
  labels:
    run: dry
  name: dry
spec:
  containers:
  - image: nginx
    name: dry
    resources: {}
  dnsPolicy: ClusterFirst
  restartPolicy: Always
status: {}
`},
		{run: "run dry --image=nginx --dry-run=server", out: "pod/dry created (server dry run)"},
		{run: "run dry --image=nginx --dry-run=server -o yaml", out: `
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: "20…Z"
⋮
  labels:
    run: dry
  name: dry
  namespace: {ns}
⋮
  uid: …
spec:
  containers:
  - image: nginx
    imagePullPolicy: Always
    name: dry
    resources: {}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    volumeMounts:
    - mountPath: /var/run/secrets/kubernetes.io/serviceaccount
      name: kube-api-access-…
      readOnly: true
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  serviceAccount: default
  serviceAccountName: default
  terminationGracePeriodSeconds: 30
  tolerations:
  - effect: NoExecute
    key: node.kubernetes.io/not-ready
    operator: Exists
    tolerationSeconds: 300
  - effect: NoExecute
    key: node.kubernetes.io/unreachable
    operator: Exists
    tolerationSeconds: 300
  volumes:
  - name: kube-api-access-…
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken:
          expirationSeconds: 3607
          path: token
      - configMap:
          items:
          - key: ca.crt
            path: ca.crt
          name: kube-root-ca.crt
      - downwardAPI:
          items:
          - fieldRef:
              apiVersion: v1
              fieldPath: metadata.namespace
            path: namespace
status:
  phase: Pending
  qosClass: BestEffort
`},
		{run: "get pod dry", code: 1, err: `Error from server (NotFound): pods "dry" not found`},
		{run: "run once --image=busybox --restart=Never --env=A=b --labels=app=once --annotations=simulated.garboard.io/exit-code=0 --command -- sleep 1", out: "pod/once created"},
		{run: "get pod once -o jsonpath={.spec.containers[0].command}{.spec.containers[0].env}{.spec.restartPolicy}{.metadata.labels}", out: `["sleep","1"][{"name":"A","value":"b"}]Never{"app":"once"}`},
		{run: "wait --for=jsonpath={.status.phase}=Succeeded pod/once --timeout=150s", out: "pod/once condition met"},
		{run: "run there --image=nginx --overrides='{\"spec\":{\"nodeName\":\"node-1\"}}' -o jsonpath={.spec.nodeName}", out: "node-1"},
		{run: "run Bad_name --image=nginx", code: 1, err: `
The Pod "Bad_name" is invalid:
* metadata.name: Invalid value: "Bad_name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
* spec.containers[0].name: Invalid value: "Bad_name": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
`},
		{run: "run bad --image='no image'", code: 1, err: `error: …nvalid image name "no image": invalid reference format`},
		{run: "run bad --image=nginx --rm", code: 1, err: "error: --rm should only be used for attached containers\n⋮"},
		{run: "run bad --image=nginx --restart=Sometimes", code: 1, err: "error: invalid restart policy: Sometimes…\n⋮"},
	}
}

func exposeAll() []step {
	return []step{
		{run: "expose pod web --name=again --port=8080 --target-port=80", out: "service/again exposed"},
		{run: "get service again -o wide", out: "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR\nagain ClusterIP 10.… <none> 8080/TCP … run=web"},
		{run: "create deployment front --image=nginx --port=80", out: "deployment.apps/front created"},
		{run: "expose deployment front --type=NodePort", out: "service/front exposed"},
		{run: "get service front", out: "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nfront NodePort 10.… <none> 80:3…/TCP …"},
		{run: "expose service front --name=copy --port=81 --type=LoadBalancer --session-affinity=ClientIP", out: "service/copy exposed"},
		{run: "get service copy -o jsonpath={.spec.selector}{.spec.sessionAffinityConfig}", out: `{"app":"front"}{"clientIP":{"timeoutSeconds":10800}}`},
		{run: "create -f -", stdin: replicated("apps/v1", "ReplicaSet", "set", "{matchLabels: {app: set}}"), out: "replicaset.apps/set created"},
		{run: "expose rs set --port=80 --protocol=UDP", out: "service/set exposed"},
		{run: "get service set -o jsonpath={.spec.ports[0].protocol}{.spec.selector}", out: `UDP{"app":"set"}`},
		{run: "create -f -", stdin: replicated("v1", "ReplicationController", "old", "{app: old}"), out: "replicationcontroller/old created"},
		{run: "expose rc old --port=80 --external-ip=1.2.3.4", out: "service/old exposed", err: "…"},
		{run: "get service old", out: "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nold ClusterIP 10.… 1.2.3.4 80/TCP …"},
		{run: "expose deployment front", code: 1, err: `Error from server (AlreadyExists): services "front" already exists`},
		{run: "expose deployment nothing", code: 1, err: `Error from server (NotFound): deployments.apps "nothing" not found`},
		{run: "expose node node-1", code: 1, err: "error: cannot expose a Node"},
		{run: "expose rs set --name=portless", code: 1, err: "error: couldn't find port via --port flag or introspection"},
		{run: "expose deployment front --name=bad --type=Round", code: 1, err: `The Service "bad" is invalid: spec.type: Unsupported value: "Round": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`},
		{run: "expose deployment front --name=bad --port=80000", code: 1, err: `
The Service "bad" is invalid:
* spec.ports[0].port: Invalid value: 80000: must be between 1 and 65535, inclusive
* spec.ports[0].targetPort: Invalid value: 80000: must be between 1 and 65535, inclusive
`},
	}
}

// replicated returns an object of a kind that creates pods from a template.
func replicated(version, kind, name, selector string) string {
	return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: " + name + ", labels: {app: " + name + "}}\nspec:\n  replicas: 1\n  selector: " + selector + `
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: {containers: [{name: c, image: nginx}]}
`
}

func readLogs() []step {
	return []step{
		{run: "create -f -", out: "pod/speaks created\npod/both created", stdin: `apiVersion: v1
kind: Pod
metadata: {name: speaks, labels: {logs: "yes"}, annotations: {simulated.garboard.io/log: "one\ntwo\nthree"}}
spec: {containers: [{name: c, image: busybox}]}
---
apiVersion: v1
kind: Pod
metadata: {name: both, labels: {logs: "yes"}, annotations: {simulated.garboard.io/log.a: "from a", simulated.garboard.io/log.b: "from b"}}
spec: {containers: [{name: a, image: busybox}, {name: b, image: busybox}]}
`},
		{run: "wait --for=condition=Ready pod -l logs=yes --timeout=150s", out: "pod/both condition met\npod/speaks condition met"},
		{until: true, run: "logs speaks", out: "one\ntwo\nthree"},
		{run: "logs speaks --tail=1", out: "three"},
		{run: "logs pod/speaks --limit-bytes=5", out: "one\nt"},
		{run: "logs speaks --timestamps --tail=1", out: "20…T…Z three"},
		{run: "logs speaks --prefix --tail=1", out: "[pod/speaks/c] three"},
		{run: "logs speaks --since=1h --tail=2", out: "two\nthree"},
		{run: "logs speaks --since-time=2999-01-01T00:00:00Z"},
		{run: "logs both", out: "from a", err: `Defaulted container "a" out of: a, b`},
		{run: "logs both -c b", out: "from b"},
		{run: "logs both --all-containers", out: "from …\nfrom …"},
		{run: "logs -l logs=yes --all-containers --tail=1 --prefix", out: "[pod/…/…] …\n[pod/…/…] …\n[pod/…/…] …"},
		{run: "logs -l logs=yes --all-containers -f --max-log-requests=1", code: 1, err: "error: you are attempting to follow 3 log streams, but maximum allowed concurrency is 1, use --max-log-requests to increase the limit"},
		{run: "logs both -c d", code: 1, err: "error: container d is not valid for pod both…"},
		{run: "logs speaks --previous", code: 1, err: `Error from server (BadRequest): previous terminated container "c" in pod "speaks" not found`},
		{run: "logs nothing", code: 1, err: `error: error from server (NotFound): pods "nothing" not found in namespace "{ns}"`},
		{run: "logs speaks --tail=-5", code: 1, err: "error: --tail must be greater than or equal to -1"},
		{run: "logs speaks --since=1h --since-time=2999-01-01T00:00:00Z", code: 1, err: "error: at most one of `sinceTime` or `sinceSeconds` may be specified"},
		{run: "logs service/nothing", code: 1, err: `error: error from server (NotFound): services "nothing" not found in namespace "{ns}"`},
		{run: "wait --for=condition=Available deployment/front --timeout=150s", out: "deployment.apps/front condition met"},
		{run: "logs deployment/front --tail=0"},
	}
}

func debugPods() []step {
	return []step{
		{run: "debug web --image=busybox --copy-to=copy -c extra --profile=general -- sleep 1h"},
		{run: "wait --for=condition=Ready pod/copy --timeout=150s", out: "pod/copy condition met"},
		{run: "get pod copy -o jsonpath={.spec.containers[*].name}", out: "web extra"},
		{run: "debug web --copy-to=other --set-image=*=busybox --profile=general --same-node"},
		{run: "get pod other -o jsonpath={.spec.containers[*].image}", out: "busybox"},
		{run: "debug web --image=busybox --copy-to=copy -c extra --profile=general", code: 1, err: `Error from server (AlreadyExists): pods "copy" already exists`},
		{run: "debug web --image=busybox -c debugger --profile=general -- sleep 1h"},
		{run: "get pod web -o jsonpath={.spec.ephemeralContainers[*].name}", out: "debugger"},
		{run: "debug node/node-1 --image=busybox --profile=general -- sleep 1h", out: "…", err: "…"},
		{run: "debug node/nothing --image=busybox --profile=general", code: 1, err: `Error from server (NotFound): nodes "nothing" not found`},
		{run: "debug nothing --image=busybox --profile=general", code: 1, err: `Error from server (NotFound): pods "nothing" not found`},
		{run: "debug web --profile=general", code: 1, err: "error: you must specify --image when not using --copy-to…"},
	}
}
