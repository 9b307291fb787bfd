package upstream

func services() []script {
	const pods = `
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: web}}
spec: {containers: [{name: c, image: "one:1", ports: [{name: http, containerPort: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, labels: {app: web}, annotations: {judge/outcome: wait}}
spec: {hostname: b, subdomain: bare, containers: [{name: c, image: "one:1", ports: [{name: http, containerPort: 8080}]}]}
`
	return []script{
		{"service", []step{
			create(pods + `---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {tier: front}}
spec: {selector: {app: web}, ports: [{name: main, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: bare}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: web}}
`),
			patch("services", "web", `{"spec":{"trafficDistribution":"PreferSameZone"},"metadata":{"labels":{"tier":"back"}}}`),
			patchPods(1, "app=web", `{"metadata":{"labels":{"app":"other"}}}`),
			patch("services", "web", `{"spec":{"selector":null}}`),
			remove("services", "bare", background),
		}},
		{"endpoints-mirroring", []step{
			create(`
apiVersion: v1
kind: Service
metadata: {name: far}
spec: {ports: [{name: main, port: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: far, labels: {a: b}}
subsets: [{addresses: [{ip: 192.0.2.7}, {ip: "2001:db8::7"}], ports: [{name: main, port: 8080}]}]
`),
			patch("endpoints", "far", `{"subsets":[{"notReadyAddresses":[{"ip":"192.0.2.8"}],"ports":[{"name":"main","port":8081}]}]}`),
			remove("endpoints", "far", background),
		}},
		{"disruption", []step{
			webs(""),
			create(`
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: most}
spec: {minAvailable: 60%, selector: {matchLabels: {app: web}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: none}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: nobody}}}
`),
			patch("deployments", "web", `{"spec":{"replicas":5}}`),
			removePods(1, "app=web"),
		}},
	}
}

func volumes() []script {
	return []script{
		{"volumes", []step{
			create(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: HOME.one}
spec: {capacity: {storage: 2Gi}, accessModes: [ReadWriteOnce], storageClassName: HOME, persistentVolumeReclaimPolicy: Retain, hostPath: {path: /tmp/one}}
`),
			// A claim that a controller sees before its volume has an Event, which is chance.
			create(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: mine}
spec: {accessModes: [ReadWriteOnce], storageClassName: HOME, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: large}
spec: {accessModes: [ReadWriteOnce], storageClassName: HOME, resources: {requests: {storage: 9Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec: {containers: [{name: c, image: "one:1"}], volumes: [{name: v, persistentVolumeClaim: {claimName: mine}}]}
`),
			remove("persistentvolumeclaims", "mine", background),
			remove("persistentvolumes", "HOME.one", background),
			remove("pods", "user", background),
		}},
		{"volumes-ephemeral", []step{
			create(`
apiVersion: v1
kind: Pod
metadata: {name: user, annotations: {judge/outcome: wait}}
spec:
  containers: [{name: c, image: "one:1"}]
  volumes:
  - name: scratch
    ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}}}
`),
			remove("pods", "user", background),
		}},
	}
}

func clusters() []script {
	return []script{
		{"accounts", []step{
			remove("serviceaccounts", "default", background),
			patch("configmaps", "kube-root-ca.crt", `{"data":{"ca.crt":"bad"}}`),
			remove("configmaps", "kube-root-ca.crt", background),
		}},
		{"roles", []step{
			create(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: HOME.all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {role: HOME}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: HOME.part, labels: {role: HOME}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`),
			patch("clusterroles", "HOME.part", `{"rules":[{"apiGroups":[""],"resources":["services"],"verbs":["list"]}]}`),
			remove("clusterroles", "HOME.part", background),
		}},
		{"policies", []step{
			create(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: HOME.bad}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  validations: [{expression: "object.spec.replicas == 'many'"}, {expression: "object.nothing > 1"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: HOME.good}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  validations: [{expression: "object.spec.replicas > 0"}]
`),
		}},
		{"service-cidr", []step{
			create(`
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: HOME.more}
spec: {cidrs: [10.200.0.0/24]}
`),
			remove("servicecidrs", "HOME.more", background),
		}},
		{"nodes", []step{
			create(`
apiVersion: v1
kind: Node
metadata: {name: HOME.new}
`),
			patch("nodes/status", "HOME.new", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Driven"},{"type":"DiskPressure","status":"True","reason":"Driven"}]}}`),
			create(`
apiVersion: v1
kind: Pod
metadata: {name: there}
spec: {nodeName: HOME.new, containers: [{name: c, image: "one:1"}]}
`),
			remove("nodes", "HOME.new", background),
		}},
		{"garbage", []step{
			create(`
apiVersion: v1
kind: ConfigMap
metadata: {name: lost, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: nobody, uid: 00000000-0000-0000-0000-000000000001}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: odd, ownerReferences: [{apiVersion: example.com/v1, kind: Nothing, name: nobody, uid: 00000000-0000-0000-0000-000000000002}]}
`),
			later(calm),
		}},
		{"namespace", []step{
			webs(""),
			stateful(""),
			work("completions: 1", ""),
			gone(),
		}},
	}
}

// faults returns those that run alone.
func faults() []script {
	return []script{
		{"killed-controllers", []step{
			during(webs(""), patch("deployments", "web", `{"spec":{"replicas":6}}`)),
			during(image("deployments", "web", "two:2"), removePods(2, "app=web")),
			during(stateful(""), stateless("db")),
			during(work("completions: 6\n  parallelism: 2", "judge/outcome: complete"), later(calm)),
		}},
		{"killed-apiserver", []step{
			outage(webs("")),
			outage(image("deployments", "web", "two:2")),
			outage(work("completions: 6\n  parallelism: 2\n  completionMode: Indexed", "judge/outcome: complete")),
		}},
	}
}

// stateless scales a StatefulSet down.
func stateless(name string) step { return patch("statefulsets", name, `{"spec":{"replicas":1}}`) }
