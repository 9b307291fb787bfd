package e2e_test

// applySession manages objects with files: client-side apply, diff, replace, delete, wait.
func applySession() session {
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "
	return session{name: "apply", files: map[string]string{
		"web.yaml":                   web("replicas: 2", "replicas: 1"),
		"changed.yaml":               web("replicas: 2", "replicas: 1", "nginx:1", "nginx:2", "{app: web}}\nspec", "{app: web, tier: front}}\nspec"),
		"bad.yaml":                   web("name: web,", "name: We_b,"),
		"one.yaml":                   config + "one}\ndata: {a: '1'}\n",
		"two.yaml":                   config + "one}\ndata: {a: '2'}\n",
		"tree/a.yaml":                config + "tree-a, labels: {set: tree}}\n",
		"tree/deep/b.yaml":           config + "tree-b, labels: {set: tree}}\n",
		"tree/deep/note.txt":         "no manifest",
		"kustom/kustomization.yaml":  "namePrefix: k-\nresources: [base.yaml]\nconfigMapGenerator:\n- name: made\n  literals: [x=y]\n",
		"kustom/base.yaml":           config + "base}\n",
		"pruned/a.yaml":              config + "pruned-a, labels: {set: pruned}}\n",
		"pruned/b.yaml":              config + "pruned-b, labels: {set: pruned}}\n",
		"fewer/a.yaml":               config + "pruned-a, labels: {set: pruned}}\n",
		"list.json":                  `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"listed-a"}},{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"listed-b"}}]}`,
		"generated.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}\n",
		"status.yaml":                web("replicas: 2", "replicas: 1") + "status: {collisionCount: 4}\n",
		"other-namespace.yaml":       config + "x, namespace: elsewhere}\n",
		"nothing-known.yaml":         "apiVersion: example.com/v1\nkind: Rocket\nmetadata: {name: r}\n",
		"no-kind.yaml":               "metadata: {name: r}\n",
		"no-name.yaml":               "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {a: b}}\n",
		"changed-selector.yaml":      web("replicas: 2", "replicas: 1", "matchLabels: {app: web}", "matchLabels: {app: z}"),
		"set-last-applied-edit.sh":   "sed -i 's/a: \"2\"/a: \"3\"/' \"$1\"\n",
		"pruned-other/unlisted.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: pruned-secret, labels: {set: pruned}}\n",
	}, steps: concat(diffAndApply(), applyTrees(), replaceCommands(), waitCommands(), deleteCommands())}
}

func diffAndApply() []step {
	return []step{
		{run: "diff -f one.yaml", code: 1, out: "⋮\n+apiVersion: v1\n+data:\n+  a: \"1\"\n+kind: ConfigMap\n⋮"},
		{run: "apply -f one.yaml", out: "configmap/one created"},
		{run: "diff -f one.yaml"},
		{run: "diff -f two.yaml", code: 1, out: "⋮\n-  a: \"1\"\n+  a: \"2\"\n⋮"},
		{run: "diff -f nothing.yaml", code: 2, err: `error: the path "nothing.yaml" does not exist`},
		{run: "diff -f bad.yaml", code: 2, err: `The Deployment "We_b" is invalid: metadata.name: Invalid value: "We_b": …`},
		{run: "apply -f one.yaml", out: "configmap/one unchanged"},
		{run: "apply -f two.yaml --dry-run=server", out: "configmap/one configured (server dry run)"},
		{run: "apply -f two.yaml --dry-run=client", out: "configmap/one configured (dry run)"},
		{run: "get configmap one -o jsonpath={.data.a}", out: "1"},
		{run: "apply -f two.yaml", out: "configmap/one configured"},
		{run: "apply view-last-applied configmap/one", out: "apiVersion: v1\ndata:\n  a: \"2\"\nkind: ConfigMap\nmetadata:\n  annotations: {}\n  name: one\n  namespace: {ns}"},
		{run: "apply edit-last-applied configmap/one", env: []string{"KUBE_EDITOR=sh ./set-last-applied-edit.sh"}, out: "configmap/one edited"},
		{run: "apply view-last-applied configmap/one -o json", out: "⋮\n        \"a\": \"3\"\n⋮"},
		{run: "apply set-last-applied -f one.yaml", out: "configmap/one configured"},
		{run: "create configmap plain", out: "configmap/plain created"},
		{run: "apply set-last-applied -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n", code: 1, err: "error: no last-applied-configuration annotation found on resource: plain, to create the annotation, run the command with --create-annotation"},
		{run: "apply -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n", out: "configmap/plain configured", err: "Warning: resource configmaps/plain is missing the kubectl.kubernetes.io/last-applied-configuration annotation which is required by …apply. …apply should only be used on resources created declaratively by either …create --save-config or …apply. The missing annotation will be patched automatically."},
		// A three-way merge keeps what others have set, and removes what the files no longer
		// contain.
		{run: "apply -f web.yaml", out: "deployment.apps/web created"},
		{run: "annotate deployment web mine=kept", out: "deployment.apps/web annotated"},
		{run: "apply -f changed.yaml", out: "deployment.apps/web configured"},
		{run: "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}{.metadata.labels}{.metadata.annotations.mine}", out: `nginx:2{"app":"web","tier":"front"}kept`},
		{run: "apply -f web.yaml", out: "deployment.apps/web configured"},
		{run: "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}{.metadata.labels}{.metadata.annotations.mine}", out: `nginx:1{"app":"web"}kept`},
		{run: "apply -f changed-selector.yaml", code: 1, err: `
The Deployment "web" is invalid:
* spec.template.metadata.labels: Invalid value: {"app":"web"}: …selector… does not match template …labels…
* spec.selector: Invalid value: {"matchLabels":{"app":"z"}}: field is immutable
`},
		{run: "apply -f bad.yaml", code: 1, err: `The Deployment "We_b" is invalid: metadata.name: Invalid value: "We_b": …`},
		{run: "apply -f generated.yaml", code: 1, err: "error: from made-: cannot use generate name with apply"},
		{run: "apply -n {ns} -f other-namespace.yaml", code: 1, err: `error: the namespace from the provided object "elsewhere" does not match the namespace "{ns}". You must pass '--namespace=elsewhere' to perform this operation.`},
		{run: "apply -f nothing-known.yaml", code: 1, err: "error: resource mapping not found for name: \"r\" namespace: \"\" from \"nothing-known.yaml\": no matches for kind \"Rocket\" in version \"example.com/v1\"\nensure CRDs are installed first"},
		{run: "apply -f no-kind.yaml", code: 1, err: "error: error validating \"no-kind.yaml\": error validating data: [apiVersion not set, kind not set]; if you choose to ignore these errors, turn validation off with --validate=false"},
		{run: "apply -f no-name.yaml", code: 1, err: "error: error when retrieving current configuration of:\nResource: \"/v1, Resource=configmaps\", GroupVersionKind: \"/v1, Kind=ConfigMap\"\nName: \"\", Namespace: \"{ns}\"\nfrom server for: \"no-name.yaml\": resource name may not be empty"},
	}
}

func applyTrees() []step {
	return []step{
		{run: "apply -f tree", out: "configmap/tree-a created"},
		{run: "apply -R -f tree", out: "configmap/tree-a unchanged\nconfigmap/tree-b created"},
		{run: "apply -f tree/a.yaml -f tree/deep/b.yaml", out: "configmap/tree-a unchanged\nconfigmap/tree-b unchanged"},
		{run: "apply -k kustom", out: "configmap/k-base created\nconfigmap/k-made-… created"},
		{run: "diff -k kustom"},
		{run: "kustomize kustom", out: "⋮\n  name: k-base\n---\n⋮\n  x: \"y\"\n⋮\n  name: k-made-…"},
		{run: "delete -k kustom", out: "configmap \"k-base\" deleted…\nconfigmap \"k-made-…\" deleted…"},
		{run: "apply -f list.json", out: "configmap/listed-a created\nconfigmap/listed-b created"},
		{run: "apply -f pruned -l set=pruned", out: "configmap/pruned-a created\nconfigmap/pruned-b created"},
		{run: "apply -f pruned-other", out: "secret/pruned-secret created"},
		{run: "apply -f fewer --prune -l set=pruned --prune-allowlist=core/v1/ConfigMap", out: "configmap/pruned-a unchanged\nconfigmap/pruned-b pruned"},
		{run: "get configmap,secret -l set=pruned -o name", out: "configmap/pruned-a\nsecret/pruned-secret"},
		{run: "apply -f fewer --prune", code: 1, err: "error: all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. If you did not mean to prune all resources, specify a label selector"},
		{run: "create secret generic other", out: "secret/other created"},
		{run: "delete configmap -l set=pruned", out: "configmap \"pruned-a\" deleted…"},
		{run: "apply -f pruned -n {ns} --prune --applyset=kept", env: []string{"KUBECTL_APPLYSET=true"}, out: "configmap/pruned-a created\nconfigmap/pruned-b created"},
		{run: "apply -f fewer -n {ns} --prune --applyset=kept", env: []string{"KUBECTL_APPLYSET=true"}, out: "configmap/pruned-a unchanged\nconfigmap/pruned-b pruned"},
		{run: "delete secret kept", out: "secret \"kept\" deleted…"},
	}
}

func replaceCommands() []step {
	return []step{
		{run: "replace -f one.yaml", out: "configmap/one replaced"},
		{run: "replace -f tree/a.yaml -f tree/deep/b.yaml", out: "configmap/tree-a replaced\nconfigmap/tree-b replaced"},
		{run: "replace -f -", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nothing}\n", code: 1, err: `Error from server (NotFound): error when replacing "STDIN": configmaps "nothing" not found`},
		// This is retried: a controller's write between kubectl's two requests is a conflict.
		{until: true, run: "replace -f status.yaml --subresource=status", out: "deployment.apps/web replaced"},
		{run: "get deployment web -o jsonpath={.status.collisionCount}", out: "4"},
		{run: "replace --force -f one.yaml --dry-run=client", code: 1, err: "error: --dry-run can not be used when --force is set"},
		{run: "replace --force --cascade=foreground -f one.yaml", out: "configmap \"one\" deleted…\nconfigmap/one replaced"},
		{run: "replace --raw /api/v1/namespaces/{ns}/configmaps/one -f -", stdin: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"raw":"yes"}}`, out: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"one",…`},
		{until: true, run: "replace -f changed-selector.yaml", code: 1, err: "⋮\n…spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"z\"}}: field is immutable"},
	}
}

func waitCommands() []step {
	return []step{
		{run: "rollout status deployment/web", out: "⋮\ndeployment \"web\" successfully rolled out"},
		{until: true, run: "get pods -l app=web -o name", out: "pod/web-…"}, // The old pod is gone.
		{run: "wait deployment/web --for=condition=Available --timeout=150s", out: "deployment.apps/web condition met"},
		{run: "wait deployment/web --for=condition=Available=true --timeout=150s", out: "deployment.apps/web condition met"},
		{run: "wait deployment/web --for=jsonpath='{.status.availableReplicas}'=1 --timeout=150s", out: "deployment.apps/web condition met"},
		{run: "wait deployment/web --for=jsonpath='{.status.availableReplicas}' --timeout=150s", out: "deployment.apps/web condition met"},
		{run: "wait deployment/web --for=create --timeout=150s", out: "deployment.apps/web condition met"},
		{run: "wait pod -l app=web --for=condition=Ready --timeout=150s", out: "pod/web-… condition met"},
		{run: "wait deployment --all --for=condition=Available --timeout=150s", out: "deployment.apps/web condition met"},
		{run: "wait deployment/web --for=delete --timeout=1s", code: 1, err: "error: timed out waiting for the condition on deployments/web"},
		{run: "wait deployment/nothing --for=condition=Available", code: 1, err: `Error from server (NotFound): deployments.apps "nothing" not found`},
		{run: "wait deployment/nothing --for=create --timeout=1s", code: 1, err: "…"},
		{run: "wait deployment/nothing --for=delete", err: "…"},
		{run: "wait deployment/web --for=moon", code: 1, err: `error: unrecognized condition: "moon"`},
		{run: "wait pod -l app=nothing --for=condition=Ready", code: 1, err: "error: no matching resources found"},
	}
}

func deleteCommands() []step {
	return []step{
		{run: "delete -f tree -R", out: "configmap \"tree-a\" deleted…\nconfigmap \"tree-b\" deleted…"},
		{run: "delete -f tree -R --ignore-not-found"},
		{run: "delete -f tree", code: 1, err: `Error from server (NotFound): error when deleting "tree…a.yaml": configmaps "tree-a" not found`},
		{run: "delete configmap one --dry-run=server", out: "configmap \"one\" deleted… (server dry run)"},
		{run: "delete configmap one listed-a -o name", out: "configmap/one\nconfigmap/listed-a"},
		{run: "delete configmap nothing", code: 1, err: `Error from server (NotFound): configmaps "nothing" not found`},
		{run: "delete configmap --field-selector metadata.name=listed-b", out: "configmap \"listed-b\" deleted…"},
		{run: "delete configmap -l set=nothing", out: "No resources found"},
		{run: "delete configmap", code: 1, err: "error: resource(s) were provided, but no name was specified"},
		{run: "delete configmap a --all", code: 1, err: "error: name cannot be provided when a selector is specified"},
		{run: "delete deployment web --cascade=orphan", out: "deployment.apps \"web\" deleted…"},
		{until: true, run: "get rs,pods -l app=web -o name", out: "replicaset.apps/web-…\nreplicaset.apps/web-…\npod/web-…"},
		{run: "delete rs -l app=web --cascade=foreground", out: "replicaset.apps \"web-…\" deleted…\nreplicaset.apps \"web-…\" deleted…"},
		{run: "get pods -l app=web", err: "No resources found in {ns} namespace."},
		{run: "run stays --image=nginx --annotations=simulated.garboard.io/stop-delay=1h", out: "pod/stays created"},
		{run: "wait --for=condition=Ready pod/stays --timeout=150s", out: "pod/stays condition met"},
		{run: "delete pod stays --wait=false", out: "pod \"stays\" deleted…"},
		{run: "get pod stays --no-headers", out: "stays 1/1 Terminating 0 …"},
		{run: "delete pod stays --grace-period=0 --force", out: "pod \"stays\" force deleted…", err: "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may continue to run on the cluster indefinitely."},
		{run: "delete pod stays --grace-period=0", code: 1, err: "…"},
		{run: "run short --image=nginx", out: "pod/short created"},
		{run: "delete pod short --now", out: "pod \"short\" deleted…"},
		{run: "delete --raw /api/v1/namespaces/{ns}/configmaps/k-nothing", code: 1, err: `Error from server (NotFound): configmaps "k-nothing" not found`},
		{run: "delete secrets --all", out: "secret \"other\" deleted…\nsecret \"pruned-secret\" deleted…"},
	}
}
