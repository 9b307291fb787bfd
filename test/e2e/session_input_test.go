package e2e_test

import "strings"

// inputSession makes every mistake, and checks the error that Kubernetes returns for it.
func inputSession() session {
	return session{name: "input", files: map[string]string{
		"unknown.yaml": web("replicas: 2", "replicsa: 0", "image: ", "imagee: x, image: "),
		"both.json":    `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"both"},"data":{"a":"1","a":"2"},"colour":"red"}`,
		"list.yaml":    "apiVersion: v1\nkind: ConfigMapList\nitems: 3\n",
	}, steps: concat(fieldValidation(), wrongTypes(), wrongPods(), wrongWorkloads(), wrongObjects(), immutableFields())}
}

func fieldValidation() []step {
	return []step{
		{run: "create -f unknown.yaml", code: 1, err: `Error from server (BadRequest): error when creating "unknown.yaml": Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.replicsa", unknown field "spec.template.spec.containers[0].imagee"`},
		{run: "create -f unknown.yaml --validate=strict", code: 1, err: `Error from server (BadRequest): error when creating "unknown.yaml": Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.replicsa", unknown field "spec.template.spec.containers[0].imagee"`},
		{run: "create -f unknown.yaml --validate=warn --dry-run=server", out: "deployment.apps/web created (server dry run)", err: "Warning: unknown field \"spec.replicsa\"\nWarning: unknown field \"spec.template.spec.containers[0].imagee\""},
		{run: "create -f unknown.yaml --validate=ignore --dry-run=server", out: "deployment.apps/web created (server dry run)"},
		{run: "create -f unknown.yaml --validate=false", out: "deployment.apps/web created"},
		{run: "create -f unknown.yaml --validate=maybe", code: 1, err: `error: invalid - validate option "maybe"…`},
		// These are sent raw, since kubectl itself drops duplicate keys.
		{run: "create --raw /api/v1/namespaces/{ns}/configmaps?fieldValidation=Strict -f both.json", code: 1, err: `Error from server (BadRequest): ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "data.a", unknown field "colour"`},
		{run: "create --raw /api/v1/namespaces/{ns}/configmaps -f both.json", out: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"both",…`, err: "Warning: duplicate field \"data.a\"\nWarning: unknown field \"colour\""},
		{run: "create --raw /api/v1/namespaces/{ns}/configmaps?fieldValidation=Sometimes -f both.json", code: 1, err: `…fieldValidation: …: "Sometimes": supported values: "", "Ignore", "Strict", "Warn"`},
		{run: "get configmap both -o jsonpath={.data.a}", out: "2"},
		{run: `patch configmap both --type=merge -p '{"colour":"red","data":{"b":"1"}}'`, out: "configmap/both patched", err: `Warning: unknown field "colour"`},
		{run: `patch configmap both --type=json -p '[{"op":"add","path":"/colour","value":"red"}]'`, out: "configmap/both patched (no change)", err: `Warning: unknown field "colour"`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x\n", code: 1, err: "error: error parsing STDIN: error converting YAML to JSON: yaml: …"},
		{run: "create -f -", stdin: `{"apiVersion":"v1","kind":"ConfigMap"`, code: 1, err: "error: … unexpected …"},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\n", code: 1, err: `The ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		{run: "create -f -", code: 1, err: "error: no objects passed to create"},
		{run: "create -f nothing.yaml", code: 1, err: `error: the path "nothing.yaml" does not exist`},
	}
}

func wrongTypes() []step {
	refused := func(kind, version, reason string) string {
		return `Error from server (BadRequest): error when creating "STDIN": ` + kind + ` in version "` + version + `" cannot be handled as a ` + kind + `: ` + reason
	}
	return []step{
		{run: "create -f -", stdin: web("replicas: 2", "replicas: two"), code: 1, err: refused("Deployment", "v1", "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32")},
		{run: "create -f -", stdin: web("replicas: 2", "replicas: 3000000000"), code: 1, err: refused("Deployment", "v1", "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32")},
		{run: "create -f -", stdin: web("replicas: 2", "replicas: 1.5"), code: 1, err: refused("Deployment", "v1", "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32")},
		{run: "create -f -", stdin: web("containers: [{", "containers: {a: {", "80}]}]", "80}]}}"), code: 1, err: refused("Deployment", "v1", "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container")},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 1}\n", code: 1, err: refused("ConfigMap", "v1", "json: cannot unmarshal number into Go struct field ConfigMap.data of type string")},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {a: true}}\n", code: 1, err: `error: unable to decode "STDIN": json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: '%'}\n", code: 1, err: refused("Secret", "v1", "illegal base64 data at input byte 0")},
		{run: "create -f -", stdin: pod("x", "requests: {cpu: much}"), code: 1, err: refused("Pod", "v1", `quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`)},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: Event\nmetadata: {name: x}\nfirstTimestamp: noon\n", code: 1, err: refused("Event", "v1", `parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`)},
		{run: "create -f -", stdin: "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: x}\n", code: 1, err: "error: resource mapping not found for name: \"x\" namespace: \"\" from \"STDIN\": no matches for kind \"ConfigMap\" in version \"v2\"\nensure CRDs are installed first"},
	}
}

func wrongPods() []step {
	with := func(part, replacement string) string {
		return strings.Replace("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: nginx}]}\n", part, replacement, 1)
	}
	invalid := func(reason string) string { return `The Pod "x" is invalid: ` + reason }
	return []step{
		{run: "create -f -", stdin: with("image: nginx", "image: ''"), code: 1, err: invalid("spec.containers[0].image: Required value")},
		{run: "create -f -", stdin: with("[{name: c, image: nginx}]", "[]"), code: 1, err: invalid("spec.containers: Required value")},
		{run: "create -f -", stdin: with("[{name: c, image: nginx}]", "[{name: c, image: nginx}, {name: c, image: nginx}]"), code: 1, err: invalid(`spec.containers[1].name: Duplicate value: "c"`)},
		{run: "create -f -", stdin: with("containers", "restartPolicy: Sometimes, containers"), code: 1, err: invalid(`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`)},
		{run: "create -f -", stdin: with("image: nginx", "image: nginx, resources: {requests: {cpu: -1}}"), code: 1, err: "⋮\n…spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"},
		{run: "create -f -", stdin: with("image: nginx", "image: nginx, resources: {requests: {cpu: 2}, limits: {cpu: 1}}"), code: 1, err: invalid(`spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`)},
		{run: "create -f -", stdin: with("image: nginx", "image: nginx, resources: {limits: {rockets: 1}}"), code: 1, err: "⋮\n…spec.containers[0].resources.limits[rockets]: Invalid value: \"rockets\": must be a standard resource …\n⋮"},
		{run: "create -f -", stdin: with("image: nginx", "image: nginx, ports: [{containerPort: 0}]"), code: 1, err: invalid("spec.containers[0].ports[0].containerPort: Required value")},
		{run: "create -f -", stdin: with("image: nginx", "image: nginx, volumeMounts: [{name: v, mountPath: /v}]"), code: 1, err: invalid(`spec.containers[0].volumeMounts[0].name: Not found: "v"`)},
		{run: "create -f -", stdin: with("image: nginx", "image: nginx, env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"), code: 1, err: invalid("spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty")},
		{run: "create -f -", stdin: with("image: nginx", "image: nginx, imagePullPolicy: Rarely"), code: 1, err: invalid(`spec.containers[0].imagePullPolicy: Unsupported value: "Rarely": supported values: "Always", "IfNotPresent", "Never"`)},
		{run: "create -f -", stdin: with("image: nginx", "image: nginx, livenessProbe: {periodSeconds: 1}"), code: 1, err: invalid("spec.containers[0].livenessProbe: Required value: must specify a handler type")},
		{run: "create -f -", stdin: with("containers", "volumes: [{name: v}, {name: v, emptyDir: {}, hostPath: {path: /}}], containers"), code: 1, err: "⋮\n* spec.volumes[1].…\n⋮"},
		{run: "create -f -", stdin: with("containers", "nodeSelector: {'a b': c}, containers"), code: 1, err: invalid(`spec.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`)},
		{run: "create -f -", stdin: with("containers", "tolerations: [{operator: Exists, value: x}], containers"), code: 1, err: invalid("spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'")},
		{run: "create -f -", stdin: with("containers", "serviceAccountName: nobody, containers"), code: 1, err: `Error from server (Forbidden): error when creating "STDIN": pods "x" is forbidden: error looking up service account {ns}/nobody: serviceaccount "nobody" not found`},
		{run: "create -n nowhere -f -", stdin: with("", ""), code: 1, err: `Error from server (NotFound): error when creating "STDIN": namespaces "nowhere" not found`},
	}
}

func wrongWorkloads() []step {
	invalid := func(reason string) string { return `The Deployment "web2" is invalid: ` + reason }
	deployment := func(changes ...string) string {
		return web(append([]string{"name: web,", "name: web2,"}, changes...)...)
	}
	return []step{
		{run: "create -f -", stdin: deployment("replicas: 2", "replicas: -1"), code: 1, err: invalid("spec.replicas: Invalid value: -1: must be greater than or equal to 0")},
		{run: "create -f -", stdin: deployment("  selector: {matchLabels: {app: web}}\n", ""), code: 1, err: invalid("\n* spec.selector: Required value\n* spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`")},
		{run: "create -f -", stdin: deployment("matchLabels: {app: web}", "matchLabels: {app: other}"), code: 1, err: invalid("spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`")},
		{run: "create -f -", stdin: deployment("replicas: 2", "strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}"), code: 1, err: invalid("spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'")},
		{run: "create -f -", stdin: deployment("replicas: 2", "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}"), code: 1, err: invalid("spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0")},
		{run: "create -f -", stdin: deployment("replicas: 2", "strategy: {rollingUpdate: {maxUnavailable: 150%}}"), code: 1, err: invalid(`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "150%": must not be greater than 100%`)},
		{run: "create -f -", stdin: deployment("replicas: 2", "minReadySeconds: 600"), code: 1, err: invalid("spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds")},
		{run: "create -f -", stdin: deployment("containers: [", "restartPolicy: Never, containers: ["), code: 1, err: invalid(`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`)},
		{run: "create -f -", stdin: deployment("matchLabels: {app: web}", "matchExpressions: [{key: app, operator: Near}]"), code: 1, err: invalid("\n* spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator\n* spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"Near\"}]}: invalid label selector")},
		{run: "create -f -", stdin: web("name: web,", "name: "+strings.Repeat("a", 254)+","), code: 1, err: "…metadata.name: Invalid value: …: must be no more than 253 …"},
	}
}

func wrongObjects() []step {
	return []step{
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {'a b': c}\n", code: 1, err: `The ConfigMap "x" is invalid: data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\nbinaryData: {a: YQ==}\n", code: 1, err: `The ConfigMap "x" is invalid: data[a]: Invalid value: "a": duplicate of key present in binaryData`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, annotations: {'a b': c}}\n", code: 1, err: `The ConfigMap "x" is invalid: metadata.annotations: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, finalizers: [mine]}\n", code: 1, err: `The ConfigMap "x" is invalid: metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, ownerReferences: [{apiVersion: v1, kind: Pod, name: p}]}\n", code: 1, err: `The ConfigMap "x" is invalid: metadata.ownerReferences[0].uid: Required value: must not be empty`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 80}, {port: 81}]}\n", code: 1, err: "The Service \"x\" is invalid:\n* spec.ports[0].name: Required value\n* spec.ports[1].name: Required value"},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: []}\n", code: 1, err: `The Service "x" is invalid: spec.ports: Required value`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterIP: 1.2.3.4, ports: [{port: 80}]}\n", code: 1, err: `The Service "x" is invalid: spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: …`},
		{run: "create -f -", stdin: "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: x}\nrules: [{verbs: [], apiGroups: [''], resources: [pods]}]\n", code: 1, err: `The Role "x" is invalid: rules[0].verbs: Required value`},
		{run: "create -f -", stdin: "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: x}\nrules: [{verbs: [get], nonResourceURLs: [/x]}]\n", code: 1, err: `The Role "x" is invalid: rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x}\nspec: {accessModes: [Sometimes], resources: {}}\n", code: 1, err: "The PersistentVolumeClaim \"x\" is invalid:\n* spec.accessModes: Unsupported value: \"Sometimes\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"\n* spec.resources[storage]: Required value"},
		{run: "create -f -", stdin: "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: x}\nspec: {selector: {}, minAvailable: 1, maxUnavailable: 1}\n", code: 1, err: `The PodDisruptionBudget "x" is invalid: spec: Invalid value: …: minAvailable and maxUnavailable cannot be both set`},
	}
}

func immutableFields() []step {
	return []step{
		{run: "create -f -", stdin: pod("still", ""), out: "pod/still created"},
		{run: `patch pod still -p '{"spec":{"restartPolicy":"Never"}}'`, code: 1, err: "The Pod \"still\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n⋮"},
		{run: `patch pod still --type=json -p '[{"op":"add","path":"/spec/containers/-","value":{"name":"d","image":"nginx"}}]'`, code: 1, err: `The Pod "still" is invalid: spec.containers: Forbidden: pod updates may not add or remove containers`},
		{run: `patch pod still -p '{"spec":{"containers":[{"name":"c","image":"nginx:2"}]}}'`, out: "pod/still patched"},
		{run: "create -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fixed}\ndata: {a: b}\nimmutable: true\n", out: "configmap/fixed created"},
		{run: `patch configmap fixed -p '{"data":{"a":"c"}}'`, code: 1, err: "The ConfigMap \"fixed\" is invalid: data: Forbidden: field is immutable when `immutable` is set"},
		{run: `patch configmap fixed -p '{"immutable":false}'`, code: 1, err: "The ConfigMap \"fixed\" is invalid: immutable: Forbidden: field is immutable when `immutable` is set"},
		{run: "create secret generic typed --from-literal=a=b", out: "secret/typed created"},
		{run: `patch secret typed -p '{"type":"other"}'`, code: 1, err: `The Secret "typed" is invalid: type: Invalid value: "other": field is immutable`},
		{run: "create service clusterip fixed --tcp=80", out: "service/fixed created"},
		{run: `patch service fixed -p '{"spec":{"clusterIP":"10.96.99.99"}}'`, code: 1, err: "⋮\n…spec.clusterIPs[0]: Invalid value: [\"10.96.99.99\"]: may not change once set\n⋮"},
		{run: "create role fixed --verb=get --resource=pods", out: "role.rbac.authorization.k8s.io/fixed created"},
		{run: "create rolebinding fixed --role=fixed --user=ann", out: "rolebinding.rbac.authorization.k8s.io/fixed created"},
		{run: `patch rolebinding fixed -p '{"roleRef":{"name":"other"}}'`, code: 1, err: `The RoleBinding "fixed" is invalid: roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"other"}: field is immutable`},
		{run: `patch namespace {ns} -p '{"metadata":{"uid":"1"}}'`, code: 1, err: `The Namespace "{ns}" is invalid: metadata.uid: Invalid value: "1": field is immutable`},
		{run: `patch configmap both --type=merge -p '{"metadata":{"creationTimestamp":"2001-01-01T00:00:00Z"}}'`, out: "configmap/both patched (no change)"},
	}
}
