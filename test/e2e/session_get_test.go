package e2e_test

// getSession reads existing objects in every output format of kubectl.
func getSession() session {
	return session{name: "get", files: map[string]string{"columns.txt": "NAME KEYS\n.metadata.name .data\n", "template.txt": "{{range .items}}{{.metadata.name}} {{end}}"},
		steps: concat(getForms(), getMany(), getWatched(), eventCommands())}
}

func getForms() []step {
	return []step{
		{run: "get pods", err: "No resources found in {ns} namespace."},
		{run: "get pods -o json", out: "{\n    \"apiVersion\": \"v1\",\n    \"items\": [],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}"},
		{run: "create configmap b --from-literal=k=2", out: "configmap/b created"},
		{run: "create configmap a --from-literal=k=3 --from-literal=l=1", out: "configmap/a created"},
		{run: "create configmap c --from-literal=k=1", out: "configmap/c created"},
		{run: "label configmap a b c app=x", out: "configmap/a labeled\nconfigmap/b labeled\nconfigmap/c labeled"},
		{run: "label configmap a tier=front", out: "configmap/a labeled"},
		{run: "get configmap -l app=x", out: "NAME DATA AGE\na 2 …\nb 1 …\nc 1 …"},
		{run: "get configmap -l app=x --no-headers", out: "a 2 …\nb 1 …\nc 1 …"},
		{run: "get configmap -l 'app=x,tier!=front' -o name", out: "configmap/b\nconfigmap/c"},
		{run: "get configmap -l 'tier in (front, back)' -o name", out: "configmap/a"},
		{run: "get configmap -l '!tier,app' -o name", out: "configmap/b\nconfigmap/c"},
		{run: "get configmap --field-selector metadata.name=b -o name", out: "configmap/b"},
		{run: "get configmap --field-selector metadata.name!=b,metadata.namespace={ns} -l app -o name", out: "configmap/a\nconfigmap/c"},
		{run: "get configmap -l app=x --show-labels", out: "NAME DATA AGE LABELS\na 2 … app=x,tier=front\nb 1 … app=x\nc 1 … app=x"},
		{run: "get configmap -l app=x -L tier", out: "NAME DATA AGE TIER\na 2 … front\nb 1 …\nc 1 …"},
		{run: "get configmap -l app=x --sort-by=.data.k -o name", out: "configmap/c\nconfigmap/b\nconfigmap/a"},
		{run: "get configmap -l app=x --sort-by=.data.k", out: "NAME DATA AGE\nc 1 …\nb 1 …\na 2 …"},
		{run: "get configmap -l app=x --show-kind", out: "NAME DATA AGE\nconfigmap/a 2 …\nconfigmap/b 1 …\nconfigmap/c 1 …"},
		{run: "get configmap -l app=x -o custom-columns=NAME:.metadata.name,K:.data.k,L:.data.l", out: "NAME K L\na 3 1\nb 2 <none>\nc 1 <none>"},
		{run: "get configmap -l app=x -o custom-columns-file=columns.txt", out: "NAME KEYS\na map[k:3 l:1]\nb map[k:2]\nc map[k:1]"},
		{run: "get configmap -l app=x -o jsonpath='{range .items[*]}{.metadata.name}={.data.k};{end}'", out: "a=3;b=2;c=1;"},
		{run: "get configmap -l app=x -o jsonpath='{.items[?(@.data.k==\"2\")].metadata.name}'", out: "b"},
		{run: "get configmap a -o jsonpath-as-json={.data}", out: "[\n    {\n        \"k\": \"3\",\n        \"l\": \"1\"\n    }\n]"},
		{run: "get configmap -l app=x -o go-template='{{range .items}}{{.data.k}}{{\"\\n\"}}{{end}}'", out: "3\n2\n1"},
		{run: "get configmap -l app=x -o go-template-file=template.txt", out: "a b c"},
		{run: "get configmap -l app=x -o name --chunk-size=1", out: "configmap/a\nconfigmap/b\nconfigmap/c"},
		{run: "get configmap a -o yaml", out: `
apiVersion: v1
data:
  k: "3"
  l: "1"
kind: ConfigMap
metadata:
  creationTimestamp: "20…Z"
  labels:
    app: x
    tier: front
  name: a
  namespace: {ns}
  resourceVersion: "…"
  uid: …
`},
		{run: "get configmap nothing", code: 1, err: `Error from server (NotFound): configmaps "nothing" not found`},
		{run: "get configmap nothing --ignore-not-found"},
		{run: "get configmap a nothing", code: 1, out: "NAME DATA AGE\na 2 …", err: `Error from server (NotFound): configmaps "nothing" not found`},
		{run: "get configmap a -o mystery", code: 1, err: `error: unable to match a printer suitable for the output format "mystery", allowed formats are: …`},
		{run: "get configmap a -o jsonpath='{.data.'", code: 1, err: "error: error parsing jsonpath {.data., unclosed action"},
		{run: "get configmap -l 'app in (x'", code: 1, err: `Error from server (BadRequest): Unable to find "/v1, Resource=configmaps" that match label selector "app in (x", field selector "": unable to parse requirement: found '', expected: ',' or ')'`},
		{run: "get configmap --field-selector data.k=1", code: 1, err: `Error from server (BadRequest): Unable to find "/v1, Resource=configmaps" that match label selector "", field selector "data.k=1": …`},
		{run: "get configmap --all-namespaces a", code: 1, err: "error: a resource cannot be retrieved by name across all namespaces"},
		{run: "get --raw /api/v1/namespaces/{ns}/configmaps/nothing", code: 1, err: `Error from server (NotFound): configmaps "nothing" not found`},
		{run: "get --raw '/api/v1/namespaces/{ns}/configmaps?labelSelector=tier&limit=1'", out: `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"…"},"items":[{"metadata":{"name":"a",…`},
		{run: "get --raw /nowhere", code: 1, err: "Error from server (NotFound): the server could not find the requested resource"},
	}
}

func getMany() []step {
	return []step{
		{run: "create deployment web --image=nginx", out: "deployment.apps/web created"},
		{run: "create service clusterip web --tcp=80", out: "service/web created"},
		{run: "wait --for=condition=Available deployment/web --timeout=150s", out: "deployment.apps/web condition met"},
		{run: "get all", out: `
NAME                       READY   STATUS    RESTARTS   AGE
pod/web-…   1/1     Running   0          …

NAME          TYPE        CLUSTER-IP     EXTERNAL-IP   PORT(S)   AGE
service/web   ClusterIP   10.…   <none>        80/TCP    …

NAME                  READY   UP-TO-DATE   AVAILABLE   AGE
deployment.apps/web   1/1     1            1           …

NAME                             DESIRED   CURRENT   READY   AGE
replicaset.apps/web-…   1         1         1       …
`},
		{run: "get deploy,svc -o name", out: "deployment.apps/web\nservice/web"},
		{run: "get deployment/web service/web -o name", out: "deployment.apps/web\nservice/web"},
		{run: "get deployments.v1.apps web -o name", out: "deployment.apps/web"},
		{run: "get deployments.apps/web -o jsonpath={.metadata.name}", out: "web"},
		{run: "get pods -A -l app=web --field-selector metadata.namespace={ns}", out: "NAMESPACE NAME READY STATUS RESTARTS AGE\n{ns} web-… 1/1 Running 0 …"},
		{run: "get pods --field-selector status.phase=Running,spec.restartPolicy=Always -o name", out: "pod/web-…"},
		{run: "get pods --field-selector status.phase!=Running", err: "No resources found in {ns} namespace."},
		{run: "get pods -l app=web -o wide", out: "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES\nweb-… 1/1 Running 0 … 10.… node-… <none> <none>"},
		{run: "get deployment web --output-watch-events", code: 1, err: "error: --output-watch-events option can only be used with --watch or --watch-only"},
		{run: "get rs --sort-by=.metadata.creationTimestamp -o custom-columns=R:.spec.replicas", out: "R\n1"},
		{run: "get pod,nothing", code: 1, err: `error: the server doesn't have a resource type "nothing"`},
		{run: "get deployment web -o yaml --show-managed-fields=false", out: "apiVersion: apps/v1\nkind: Deployment\n⋮"},
		{run: "get pods -o jsonpath={.items[0].metadata.ownerReferences[0].kind}", out: "ReplicaSet"},
		{run: "get ns {ns} -o jsonpath={.status.phase}", out: "Active"},
		{run: "get componentstatuses scheduler -o name", out: "componentstatus/scheduler", err: "Warning: v1 ComponentStatus is deprecated in v1.19+"},
	}
}

// getWatched watches objects until the watch times out at the server. A slow machine may spend all
// of that time on the first response.
func getWatched() []step {
	return []step{
		{until: true, run: "get configmap a -w --request-timeout=1s", out: "NAME DATA AGE\na 2 …"},
		{until: true, run: "get configmap -l app=x --watch-only --request-timeout=1s -o name"},
		{until: true, run: "get --raw '/api/v1/namespaces/{ns}/configmaps?watch=true&timeoutSeconds=1&fieldSelector=metadata.name=a&resourceVersion=0'", out: `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a",…`},
	}
}

func eventCommands() []step {
	return []step{
		{until: true, run: "events --for deployment/web", out: "LAST SEEN TYPE REASON OBJECT MESSAGE\n… Normal ScalingReplicaSet Deployment/web Scaled up replica set web-… from 0 to 1"},
		{run: "events --for deployment/web --types=Warning", err: "No events found in {ns} namespace."},
		{run: "events --for deployment/web -o jsonpath={.items[0].reason}", out: "ScalingReplicaSet"},
		{run: "events --types=Strange", code: 1, err: "error: valid --types are Normal or Warning"},
		{run: "events --for nothing", code: 1, err: "error: --for must be in resource/name form"},
		{until: true, run: "get events --field-selector involvedObject.kind=Deployment,reason=ScalingReplicaSet", out: "LAST SEEN TYPE REASON OBJECT MESSAGE\n… Normal ScalingReplicaSet deployment/web Scaled up replica set web-… from 0 to 1"},
		{run: "get events.events.k8s.io --field-selector reason=ScalingReplicaSet -o jsonpath={.items[0].regarding.name}", out: "web"},
		{run: "get events --field-selector reason=ScalingReplicaSet -o wide", out: "LAST SEEN TYPE REASON OBJECT SUBOBJECT SOURCE MESSAGE FIRST SEEN COUNT NAME\n… Normal ScalingReplicaSet deployment/web deployment-controller… Scaled up replica set web-… from 0 to 1 … 1 web.…"},
	}
}
