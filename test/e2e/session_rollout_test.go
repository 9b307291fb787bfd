package e2e_test

// rolloutSession scales and rolls out the kinds that have a pod template.
func rolloutSession() session {
	return session{name: "rollout", steps: concat(scaleCommands(), rolloutCommands(), autoscaleCommands())}
}

func scaleCommands() []step {
	return []step{
		{run: "create deployment web --image=nginx:1", out: "deployment.apps/web created"},
		{run: "create -f -", stdin: replicated("apps/v1", "ReplicaSet", "set", "{matchLabels: {app: set}}"), out: "replicaset.apps/set created"},
		{run: "create -f -", stdin: replicated("v1", "ReplicationController", "old", "{app: old}"), out: "replicationcontroller/old created"},
		{run: "create -f -", stdin: replicated("apps/v1", "StatefulSet", "state", "{matchLabels: {app: state}}"), out: "statefulset.apps/state created"},
		{run: "scale deployment web --replicas=2", out: "deployment.apps/web scaled"},
		{run: "scale deployment/web rs/set rc/old sts/state --replicas=2", out: "deployment.apps/web scaled\nreplicaset.apps/set scaled\nreplicationcontroller/old scaled\nstatefulset.apps/state scaled"},
		{run: "get deployment,rs,rc,sts web set old state -o jsonpath={.items[*].spec.replicas} --ignore-not-found", out: "2 2 2 2"},
		{run: "scale deployment web --current-replicas=2 --replicas=3", out: "deployment.apps/web scaled"},
		{run: "scale deployment web --current-replicas=2 --replicas=3", code: 1, err: "error: Expected replicas to be 2, was 3"},
		{run: "scale deployment web --replicas=-1", code: 1, err: "error: The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0"},
		{run: "scale deployment web --replicas=1 --resource-version=1", code: 1, err: "error: Expected resource version to be 1, was …"},
		{run: "scale deployment -l app=web --replicas=1 --dry-run=server", out: "deployment.apps/web scaled (server dry run)"},
		{run: "scale deployment --all --replicas=1", out: "deployment.apps/web scaled"},
		{run: "scale deployment nothing --replicas=1", code: 1, err: `…deployments.apps "nothing" not found`},
		{run: "scale node node-1 --replicas=1", code: 1, err: `Error from server (NotFound): the server could not find the requested resource`},
		{run: "scale rs/set --replicas=2", out: "replicaset.apps/set scaled"},
		{run: "wait --for=jsonpath={.status.availableReplicas}=2 rs/set --timeout=150s", out: "replicaset.apps/set condition met"},
		{run: "get rs set -o wide", out: "NAME DESIRED CURRENT READY AGE CONTAINERS IMAGES SELECTOR\nset 2 2 2 … c nginx app=set"},
		{run: "delete rs/set rc/old sts/state", out: "replicaset.apps \"set\" deleted…\nreplicationcontroller \"old\" deleted…\nstatefulset.apps \"state\" deleted…"},
	}
}

func rolloutCommands() []step {
	return []step{
		{run: "rollout status deployment web", out: "⋮\ndeployment \"web\" successfully rolled out"},
		{run: "annotate deployment web kubernetes.io/change-cause='the first'", out: "deployment.apps/web annotated"},
		{until: true, run: "rollout history deployment web", out: "deployment.apps/web\nREVISION CHANGE-CAUSE\n1 the first"},
		{run: "set image deployment/web nginx=nginx:2", out: "deployment.apps/web image updated"},
		{run: "rollout status deployment web", out: "⋮\ndeployment \"web\" successfully rolled out"},
		{run: "annotate deployment web kubernetes.io/change-cause='the second' --overwrite", out: "deployment.apps/web annotated"},
		{until: true, run: "rollout history deployment web", out: "deployment.apps/web\nREVISION CHANGE-CAUSE\n1 the first\n2 the second"},
		{run: "rollout history deployment web --revision=1", out: `
deployment.apps/web with revision #1
Pod Template:
  Labels:	app=web
	pod-template-hash=…
  Annotations:	kubernetes.io/change-cause: the first
  Containers:
   nginx:
    Image:	nginx:1
    Port:	<none>
    Host Port:	<none>
    Environment:	<none>
    Mounts:	<none>
  Volumes:	<none>
  Node-Selectors:	<none>
  Tolerations:	<none>
`},
		{run: "rollout history deployment web --revision=9", code: 1, err: "error: unable to find the specified revision"},
		{run: "rollout undo deployment web --dry-run=server", out: "deployment.apps/web rolled back (server dry run)"},
		{run: "rollout undo deployment web", out: "deployment.apps/web rolled back"},
		{run: "rollout status deployment web --timeout=2m", out: "⋮\ndeployment \"web\" successfully rolled out"},
		{until: true, run: "rollout history deployment web", out: "deployment.apps/web\nREVISION CHANGE-CAUSE\n2 the second\n3 the first"},
		{run: "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}", out: "nginx:1"},
		{run: "rollout undo deployment web --to-revision=3", out: "deployment.apps/web skipped rollback (current template already matches revision 3)"},
		{run: "rollout undo deployment web --to-revision=2", out: "deployment.apps/web rolled back"},
		{run: "rollout undo deployment web --to-revision=77", code: 1, err: "error: unable to find specified revision 77 in history"},
		{run: "rollout pause deployment web", out: "deployment.apps/web paused"},
		{run: "rollout pause deployment web", code: 1, err: `error: deployments.apps "web" is already paused`},
		{run: "rollout restart deployment web", code: 1, err: `error: deployments.apps "web" can't restart paused deployment (run rollout resume first)`},
		{run: "rollout undo deployment web", code: 1, err: "error: you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again"},
		{run: "rollout resume deployment web", out: "deployment.apps/web resumed"},
		{run: "rollout resume deployment web", code: 1, err: `error: deployments.apps "web" is not paused`},
		{run: "rollout restart deployment web", out: "deployment.apps/web restarted"},
		{until: true, run: "rollout restart deployment -l app=web", out: "deployment.apps/web restarted"},
		{run: "get deployment web -o jsonpath={.spec.template.metadata.annotations}", out: `{"kubectl.kubernetes.io/restartedAt":"20…"}`},
		{run: "set image deployment/web nginx=nginx:4", out: "deployment.apps/web image updated"},
		{run: "rollout status deployment web --watch=false", out: "…"},
		{run: "rollout status deployment web", out: "⋮\ndeployment \"web\" successfully rolled out"},
		{run: "rollout status deployment nothing", code: 1, err: `Error from server (NotFound): deployments.apps "nothing" not found`},
		{run: "rollout pause configmap kube-root-ca.crt", code: 1, err: `error: configmaps "kube-root-ca.crt" pausing is not supported`},
		{run: "create -f -", stdin: replicated("apps/v1", "StatefulSet", "state", "{matchLabels: {app: state}}"), out: "statefulset.apps/state created"},
		{run: "rollout restart statefulset state", out: "statefulset.apps/state restarted"},
		{until: true, run: "rollout history statefulset state", out: "statefulset.apps/state\nREVISION CHANGE-CAUSE\n1 <none>\n⋮"},
		{run: "create -f -", stdin: daemons, out: "daemonset.apps/each created"},
		{run: "rollout restart daemonset each", out: "daemonset.apps/each restarted"},
		{run: "get daemonset each -o jsonpath={.spec.template.metadata.annotations}", out: `{"kubectl.kubernetes.io/restartedAt":"20…"}`},
		{run: "rollout pause daemonset each", code: 1, err: `error: daemonsets.apps "each" pausing is not supported`},
	}
}

// daemons is the manifest of a DaemonSet.
const daemons = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: each, labels: {app: each}}
spec:
  selector: {matchLabels: {app: each}}
  template:
    metadata: {labels: {app: each}}
    spec: {containers: [{name: c, image: nginx}]}
`

func autoscaleCommands() []step {
	return []step{
		{run: "autoscale deployment web --min=2 --max=5 --cpu-percent=80", out: "horizontalpodautoscaler.autoscaling/web autoscaled", err: "…"},
		{run: "get hpa web -o jsonpath={.spec}", out: `{"maxReplicas":5,"metrics":[{"resource":{"name":"cpu","target":{"averageUtilization":80,"type":"Utilization"}},"type":"Resource"}],"minReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}`},
		{run: "get horizontalpodautoscalers.v1.autoscaling web -o jsonpath={.spec}", out: `{"maxReplicas":5,"minReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"targetCPUUtilizationPercentage":80}`},
		{run: "autoscale rc old2 --max=3 --cpu-percent=50", code: 1, err: "⋮\nError from server (NotFound): replicationcontrollers \"old2\" not found"},
		{run: "autoscale deployment web --name=again --min=6 --max=5", code: 1, err: "error: --max=MAXPODS must be larger or equal to --min=MINPODS, max: 5, min: 6"},
		{run: "autoscale deployment web --name=again --max=5 --dry-run=server", out: "horizontalpodautoscaler.autoscaling/again autoscaled (server dry run)"},
		{run: "autoscale node node-1 --max=5", code: 1, err: "error: cannot autoscale a Node: …"},
	}
}
