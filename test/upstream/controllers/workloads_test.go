package upstream

// webs is a Deployment with 3 pods, and more of its spec.
func webs(more string) step {
	return create(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  ` + more + `
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "one:1"}]}
`)
}

// image changes the image of a workload's pods.
func image(resource, name, to string) step {
	return patch(resource, name, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"`+to+`"}]}}}}`)
}

func deployments() []script {
	return []script{
		{"deployment-rollout", []step{
			webs(""),
			image("deployments", "web", "two:2"),
			patch("deployments", "web", `{"spec":{"replicas":5}}`),
			image("deployments", "web", "one:1"),
			patch("deployments", "web", `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}},"revisionHistoryLimit":1}}`),
		}},
		{"deployment-recreate", []step{
			webs(`strategy: {type: Recreate}`),
			image("deployments", "web", "two:2"),
			remove("deployments", "web", orphan),
			webs(""),
		}},
		{"deployment-paused", []step{
			webs(`paused: true`),
			image("deployments", "web", "two:2"),
			patch("deployments", "web", `{"spec":{"paused":false}}`),
			patch("deployments", "web", `{"spec":{"paused":true,"replicas":4}}`),
		}},
		{"deployment-deadline", []step{
			webs(`progressDeadlineSeconds: 3`),
			patch("deployments", "web", `{"spec":{"template":{"metadata":{"annotations":{"judge/outcome":"wait"}}}}}`),
			later(calm),
			patch("deployments", "web", `{"spec":{"replicas":8}}`),
			patch("deployments", "web", `{"spec":{"template":{"metadata":{"annotations":{"judge/outcome":null}}}}}`),
		}},
		{"deployment-surge", []step{
			webs(`strategy: {rollingUpdate: {maxSurge: 100%, maxUnavailable: 0}}`),
			image("deployments", "web", "two:2"),
			patch("deployments", "web", `{"spec":{"replicas":0}}`),
			remove("deployments", "web", foreground),
		}},
	}
}

func sets() []script {
	return []script{
		{"replicaset", []step{
			create(`
apiVersion: v1
kind: Pod
metadata: {name: loose, labels: {app: set}}
spec: {containers: [{name: c, image: "one:1"}]}
`),
			create(replicaSet),
			patchPods(1, "app=set", `{"metadata":{"labels":{"app":"other"}}}`),
			removePods(2, "app=set"),
			patch("replicasets", "set", `{"spec":{"replicas":1}}`),
			remove("replicasets", "set", foreground),
		}},
		{"replicaset-orphan", []step{
			create(replicaSet),
			remove("replicasets", "set", orphan),
			create(replicaSet),
			remove("replicasets", "set", background),
		}},
		{"replicaset-quota", []step{
			create(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {pods: "2", services: "1", count/configmaps: "4"}}
`),
			create(replicaSet),
			patch("resourcequotas", "few", `{"spec":{"hard":{"pods":"9"}}}`),
		}},
		{"replicationcontroller", []step{
			create(`
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: c, image: "one:1"}]}
`),
			patchPods(1, "app=old", `{"metadata":{"labels":{"app":"other"}}}`),
			patch("replicationcontrollers", "old", `{"spec":{"replicas":0}}`),
		}},
	}
}

const replicaSet = `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set}
spec:
  replicas: 3
  minReadySeconds: 1
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec: {containers: [{name: c, image: "one:1"}]}
`

// stateful is a StatefulSet, and more of its spec.
func stateful(more string) step {
	return create(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  ` + more + `
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: "one:1"}]}
`)
}

const claims = `volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}}]`

func statefulSets() []script {
	return []script{
		{"statefulset-ordered", []step{
			stateful(""),
			image("statefulsets", "db", "two:2"),
			patch("statefulsets", "db", `{"spec":{"replicas":1}}`),
			removePods(1, "app=db"),
			remove("statefulsets", "db", orphan),
			stateful(""),
		}},
		{"statefulset-parallel", []step{
			stateful("podManagementPolicy: Parallel\n  ordinals: {start: 5}"),
			patch("statefulsets", "db", `{"spec":{"replicas":5}}`),
			image("statefulsets", "db", "two:2"),
			patch("statefulsets", "db", `{"spec":{"replicas":2}}`),
		}},
		{"statefulset-partition", []step{
			stateful("updateStrategy: {rollingUpdate: {partition: 2}}"),
			image("statefulsets", "db", "two:2"),
			removePods(1, "app=db"),
			patch("statefulsets", "db", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`),
			image("statefulsets", "db", "one:1"),
		}},
		{"statefulset-ondelete", []step{
			stateful("updateStrategy: {type: OnDelete}"),
			image("statefulsets", "db", "two:2"),
			removePods(2, "app=db"),
		}},
		{"statefulset-claims", []step{
			stateful(claims + "\n  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}"),
			patch("statefulsets", "db", `{"spec":{"replicas":1}}`),
			patch("statefulsets", "db", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain"}}}`),
			remove("statefulsets", "db", background),
		}},
	}
}

// daemon is a DaemonSet, and more of its spec.
func daemon(more string) step {
	return create(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  ` + more + `
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: "one:1"}]}
`)
}

func daemonSets() []script {
	return []script{
		{"daemonset-rolling", []step{
			daemon(""),
			image("daemonsets", "agent", "two:2"),
			removePods(1, "app=agent"),
			patch("daemonsets", "agent", `{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"node-b"}}}}}`),
		}},
		{"daemonset-surge", []step{
			daemon("updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}"),
			image("daemonsets", "agent", "two:2"),
			remove("daemonsets", "agent", foreground),
		}},
		{"daemonset-ondelete", []step{
			daemon("updateStrategy: {type: OnDelete}"),
			image("daemonsets", "agent", "two:2"),
			removePods(2, "app=agent"),
			patchPods(1, "app=agent", `{"metadata":{"labels":{"app":"other"}}}`),
		}},
	}
}
