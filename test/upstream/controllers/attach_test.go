package upstream

// attachments returns the scripts of volumes of CSI drivers: how they are attached, and how claims grow.
func attachments() []script {
	const volume = `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: HOME.driver}
spec: {attachRequired: true, podInfoOnMount: false}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: HOME.class}
provisioner: HOME.driver
allowVolumeExpansion: true
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: HOME.one}
spec:
  capacity: {storage: 2Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: HOME.class
  persistentVolumeReclaimPolicy: Retain
  csi: {driver: HOME.driver, volumeHandle: HOME-one}
`
	// Only then, since a claim that comes first waits for the driver's provisioner, with an Event.
	const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: mine}
spec: {accessModes: [ReadWriteOnce], storageClassName: HOME.class, resources: {requests: {storage: 1Gi}}}
`
	return []script{
		{"attach", []step{
			create(volume + `---
apiVersion: v1
kind: Node
metadata: {name: HOME.node}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: HOME.node}
spec: {drivers: [{name: HOME.driver, nodeID: HOME}]}
`),
			create(claim),
			patch("nodes/status", "HOME.node", `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Driven"}]}}`),
			create(`
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  nodeName: HOME.node
  containers: [{name: c, image: "one:1"}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: mine}}]
`),
			later(calm),
			remove("pods", "user", background),
			later(calm),
			remove("persistentvolumeclaims", "mine", background),
		}},
		{"expansion", []step{
			create(volume), create(claim),
			patch("persistentvolumeclaims", "mine", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`),
			later(calm),
		}},
	}
}

// resourceClaims returns the scripts of devices.
func resourceClaims() []script {
	const template = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: device}
spec: {metadata: {labels: {a: b}}, spec: {devices: {requests: [{name: one, exactly: {deviceClassName: HOME.class}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user, annotations: {judge/outcome: OUTCOME}}
spec:
  containers: [{name: c, image: "one:1", resources: {claims: [{name: d}]}}]
  resourceClaims: [{name: d, resourceClaimTemplateName: TEMPLATE}]
`
	return []script{
		{"resourceclaim", []step{
			create(replaceAll(template, "OUTCOME", "wait", "TEMPLATE", "device")),
			remove("pods", "user", background),
		}},
		{"resourceclaim-ended", []step{create(replaceAll(template, "OUTCOME", "complete", "TEMPLATE", "device"))}},
		{"resourceclaim-no-template", []step{
			create(replaceAll(template, "OUTCOME", "wait", "TEMPLATE", "absent")),
			later(calm),
			create("apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: absent}\n" +
				"spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: HOME.class}}]}}}\n"),
			later(calm),
		}},
	}
}

// evictions returns the scripts of taints that drive pods off a node of their own.
func evictions() []script {
	const tolerant = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {nodeName: HOME.node, containers: [{name: c, image: "one:1"}], tolerations: [TOLERATION]}
`
	return []script{{"taint-eviction", []step{
		create("apiVersion: v1\nkind: Node\nmetadata: {name: HOME.node}\n"),
		patch("nodes/status", "HOME.node", `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Driven"}]}}`),
		create(replaceAll(tolerant, "NAME", "forever", "TOLERATION", "{key: bad, operator: Exists}")),
		create(replaceAll(tolerant, "NAME", "soon", "TOLERATION", "{key: bad, operator: Exists, effect: NoExecute, tolerationSeconds: 2}")),
		create(replaceAll(tolerant, "NAME", "long", "TOLERATION", "{key: bad, operator: Exists, effect: NoExecute, tolerationSeconds: 300}")),
		create(replaceAll(tolerant, "NAME", "never", "TOLERATION", "")),
		patch("nodes", "HOME.node", `{"spec":{"taints":[{"key":"bad","effect":"NoExecute"}]}}`),
		later(calm),
		patch("nodes", "HOME.node", `{"spec":{"taints":null}}`),
	}}}
}
