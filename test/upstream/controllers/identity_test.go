package upstream

// identities returns the scripts of what proves who somebody is.
func identities() []script {
	const secret = `
apiVersion: v1
kind: Secret
metadata: {name: NAME, annotations: {kubernetes.io/service-account.name: OWNER}}
type: kubernetes.io/service-account-token
`
	return []script{
		{"token-secret", []step{
			create(replaceAll(secret, "NAME", "mine", "OWNER", "default")),
			patch("secrets", "mine", `{"data":{"token":null}}`),
			patch("secrets", "mine", `{"data":{"ca.crt":"YmFk","namespace":null}}`),
			create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n"),
			create(replaceAll(secret, "NAME", "robots", "OWNER", "robot")),
			remove("serviceaccounts", "robot", background),
		}},
		{"token-secret-orphan", []step{create(replaceAll(secret, "NAME", "lost", "OWNER", "nobody")), later(calm)}},
	}
}

// autoscalers returns the scripts of a plane without a metrics server.
func autoscalers() []script {
	const scaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME}
spec:
  minReplicas: MIN
  maxReplicas: 5
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: TARGET}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`
	return []script{
		{"autoscaler", []step{
			webs(""),
			create(replaceAll(scaler, "NAME", "by-cpu", "MIN", "1", "TARGET", "web")),
			remove("horizontalpodautoscalers", "by-cpu", background),
			create(replaceAll(scaler, "NAME", "more", "MIN", "4", "TARGET", "web")),
			remove("horizontalpodautoscalers", "more", background),
			patch("deployments", "web", `{"spec":{"replicas":0}}`),
			create(replaceAll(scaler, "NAME", "idle", "MIN", "1", "TARGET", "web")),
		}},
		{"autoscaler-no-target", []step{create(replaceAll(scaler, "NAME", "lost", "MIN", "1", "TARGET", "nobody"))}},
	}
}
