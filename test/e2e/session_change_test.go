package e2e_test

// changeSession changes existing objects: set, edit, patch, label and annotate.
func changeSession() session {
	return session{name: "change", files: map[string]string{
		"fix.sh":    "sed -i 's/replicas: 1/replicas: 0/' \"$1\"\n",
		"break.sh":  "if grep -q '^# deployments' \"$1\"; then cp \"$1\" seen; sed -i 's/replicas: -1/replicas: 2/' \"$1\"; else sed -i 's/replicas: 0/replicas: -1/' \"$1\"; fi\n",
		"patch.yml": "spec: {minReadySeconds: 3}\n",
	}, steps: concat(setCommands(), editCommands(), patchCommands(), labelCommands())}
}

func setCommands() []step {
	return []step{
		{run: "create deployment web --image=nginx:1", out: "deployment.apps/web created"},
		{run: "set image deployment/web nginx=nginx:2", out: "deployment.apps/web image updated"},
		{run: "set image deployment/web nginx=nginx:2"},
		{run: "set image deployment/web side=busybox", code: 1, err: `error: unable to find container named "side"`},
		{run: "set image deployments --all *=nginx:3", out: "deployment.apps/web image updated"},
		{run: "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}", out: "nginx:3"},
		{run: "set env deployment/web A=1 B=2", out: "deployment.apps/web env updated"},
		{run: "set env deployment/web A-", out: "deployment.apps/web env updated"},
		{run: "set env deployment/web --list", out: "# Deployment web, container nginx\nB=2"},
		{run: "create configmap conf --from-literal=KEY=x", out: "configmap/conf created"},
		{run: "set env deployment/web --from=configmap/conf --prefix=C_", out: "deployment.apps/web env updated"},
		{run: "set env deployment/web --list", out: "# Deployment web, container nginx\nB=2\n# C_KEY from configmap conf, key KEY"},
		{run: "set env deployment/web --list --resolve", out: "# Deployment web, container nginx\nB=2\nC_KEY=x"},
		{run: "set env deployment/web B=3", out: "deployment.apps/web env updated"},
		{run: "set env deployment/web B=4 --overwrite=false", code: 1, err: "error: …B… already has a value (3), and --overwrite is false"},
		{run: "set resources deployment/web --requests=cpu=100m,memory=64Mi --limits=cpu=200m", out: "deployment.apps/web resource requirements updated"},
		{run: "get deployment web -o jsonpath={.spec.template.spec.containers[0].resources}", out: `{"limits":{"cpu":"200m"},"requests":{"cpu":"100m","memory":"64Mi"}}`},
		{run: "set resources deployment/web --requests=cpu=1", code: 1, err: `error: failed to patch resources update to pod template Deployment.apps "web" is invalid: spec.template.spec.containers[0].resources.requests: Invalid value: "1": must be less than or equal to cpu limit of 200m`},
		{run: "set resources deployment/web", code: 1, err: "error: you must specify an update to requests or limits (in the form of --requests/--limits)"},
		{run: "create service clusterip web --tcp=80", out: "service/web created"},
		{run: "set selector service web app=other,tier=front", out: "service/web selector updated"},
		{run: "get service web -o jsonpath={.spec.selector}", out: `{"app":"other","tier":"front"}`},
		{run: "set serviceaccount deployment web robot", out: "deployment.apps/web serviceaccount updated"},
		{run: "get deployment web -o jsonpath={.spec.template.spec.serviceAccountName}", out: "robot"},
		{run: "create rolebinding people --clusterrole=view --user=ann", out: "rolebinding.rbac.authorization.k8s.io/people created"},
		{run: "set subject rolebinding people --user=bob --serviceaccount={ns}:robot", out: "rolebinding.rbac.authorization.k8s.io/people subjects updated"},
		{run: "get rolebinding people -o wide", out: "NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS\npeople ClusterRole/view … ann, bob {ns}/robot"},
		{run: "delete deployment web", out: `deployment.apps "web" deleted…`},
	}
}

func editCommands() []step {
	editor := func(script string) []string { return []string{"KUBE_EDITOR=sh ./" + script} }
	return []step{
		{run: "create deployment web --image=nginx:1", out: "deployment.apps/web created"},
		{run: "edit deployment web", env: editor("fix.sh"), out: "deployment.apps/web edited"},
		{run: "get deployment web -o jsonpath={.spec.replicas}", out: "0"},
		{run: "edit deployment web", env: []string{"KUBE_EDITOR=true"}, err: "Edit cancelled, no changes made."},
		// kubectl reopens a refused object with the reason; the editor then repairs it.
		{run: "edit deployment web", env: editor("break.sh"), out: "deployment.apps/web edited", err: `error: deployments.apps "web" is invalid`},
		{run: "get deployment web -o jsonpath={.spec.replicas}", out: "2"},
		{run: "create configmap seen --from-file=seen", out: "configmap/seen created"},
		{run: "get configmap seen -o jsonpath={.data.seen}", out: `
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
# deployments.apps "web" was not valid:
# * spec.replicas: Invalid value: -1: must be greater than or equal to 0
#
apiVersion: apps/v1
kind: Deployment
⋮
  replicas: -1
⋮
`},
		{run: "edit deployment web -o json --output-patch", env: []string{"KUBE_EDITOR=sed -i '/progressDeadlineSeconds/s/600/700/'"}, out: "Patch: {\"spec\":{\"progressDeadlineSeconds\":700}}\n⋮"},
		{run: "edit deployment nothing", code: 1, err: `Error from server (NotFound): deployments.apps "nothing" not found`},
		{run: "edit configmap seen", env: []string{"KUBE_EDITOR=false"}, code: 1, err: `error: there was a problem with the editor "false"`},
		{run: "delete deployment web", out: `deployment.apps "web" deleted…`},
	}
}

func patchCommands() []step {
	return []step{
		{run: "create deployment web --image=nginx:1", out: "deployment.apps/web created"},
		{run: `patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}'`, out: "deployment.apps/web patched"},
		{run: "get deployment web -o jsonpath={.spec.template.spec.containers[*].name}", out: "side nginx"},
		{run: `patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"side"}]}}}}'`, out: "deployment.apps/web patched"},
		{run: "get deployment web -o jsonpath={.spec.template.spec.containers[*].name}", out: "nginx"},
		{run: "patch deployment web --patch-file=patch.yml", out: "deployment.apps/web patched"},
		// This is retried: a controller's write between kubectl's two requests also counts as a
		// change.
		{until: true, run: "patch deployment web --patch-file=patch.yml", out: "deployment.apps/web patched (no change)"},
		{run: `patch deployment web --type=merge -p '{"spec":{"minReadySeconds":null}}'`, out: "deployment.apps/web patched"},
		{run: `patch deployment web --type=json -p '[{"op":"replace","path":"/spec/replicas","value":0},{"op":"add","path":"/metadata/labels/a~1b","value":"c"}]'`, out: "deployment.apps/web patched"},
		{run: "get deployment web -o jsonpath={.spec.replicas}{.metadata.labels}", out: `0{"a/b":"c","app":"web"}`},
		{run: `patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":1}}'`, out: "scale.autoscaling/web patched"},
		{run: `patch deployment web --subresource=status --type=merge -p '{"spec":{"replicas":7},"status":{"collisionCount":3}}'`, out: "deployment.apps/web patched"},
		{run: "get deployment web -o jsonpath={.spec.replicas}/{.status.collisionCount}", out: "1/3"},
		{run: "get deployment web --subresource=scale", out: "NAME DESIRED AVAILABLE AGE\nweb 1 … …"},
		{run: "get deployment web --subresource=scale -o jsonpath={.kind}{.spec}", out: `Scale{"replicas":1}`},
		{run: "get deployment web --subresource=status -o jsonpath={.spec.replicas}", out: "1"},
		{run: "create -f -", stdin: pod("sized", "requests: {cpu: 10m}"), out: "pod/sized created"},
		{run: `patch pod sized --subresource=resize -p '{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"20m"}}}]}}'`, out: "pod/sized patched"},
		{run: "get pod sized -o jsonpath={.spec.containers[0].resources}", out: `{"requests":{"cpu":"20m"}}`},
		{run: `patch pod sized --subresource=resize -p '{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":null}}}]}}'`, code: 1, err: "⋮\n…Pod QOS Class may not change as a result of resizing\n⋮"},
		{run: `patch deployment web --dry-run=server -p '{"spec":{"replicas":5}}'`, out: "deployment.apps/web patched"},
		{run: "get deployment web -o jsonpath={.spec.replicas}", out: "1"},
		{run: "patch deployment web -p '{\"spec\":'", code: 1, err: "Error from server (BadRequest): invalid JSON patch"},
		{run: `patch deployment web --type=json -p '[{"op":"jump","path":"/spec"}]'`, code: 1, err: "The request is invalid: the server rejected our request due to an error in our request"},
		{run: `patch deployment web --type=json -p '{"op":"add"}'`, code: 1, err: "Error from server (BadRequest): error decoding patch: json: cannot unmarshal object into Go value of type …"},
		{run: `patch deployment web --type=json -p '[{"op":"remove","path":"/spec/nothing"}]'`, code: 1, err: "The request is invalid: the server rejected our request due to an error in our request"},
		{run: `patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"image":"busybox"}]}}}}'`, code: 1, err: "Error from server…: map: map[image:busybox] does not contain declared merge key: name"},
		{run: `patch deployment web -p '{"metadata":{"name":"other"}}'`, code: 1, err: "Error from server (BadRequest): the name of the object (other) does not match the name on the URL (web)"},
		{run: `patch deployment web -p '{"metadata":{"uid":"1"}}'`, code: 1, err: `The Deployment "web" is invalid: metadata.uid: Invalid value: "1": field is immutable`},
		{run: `patch deployment web -p '{"metadata":{"resourceVersion":"1"}}'`, code: 1, err: `Error from server (Conflict): Operation cannot be fulfilled on deployments.apps "web": the object has been modified; please apply your changes to the latest version and try again`},
		{run: `patch deployment nothing -p '{}'`, code: 1, err: `Error from server (NotFound): deployments.apps "nothing" not found`},
		{run: "patch deployment web --type=magic -p '{}'", code: 1, err: "error: --type must be one of [json merge strategic], not \"magic\""},
	}
}

func labelCommands() []step {
	return []step{
		{run: "create configmap one", out: "configmap/one created"},
		{run: "create configmap two", out: "configmap/two created"},
		{run: "label configmap one a=b c=d", out: "configmap/one labeled"},
		{run: "label configmap one a=e", code: 1, err: "error: 'a' already has a value (b), and --overwrite is false"},
		{run: "label configmap one a=e --overwrite", out: "configmap/one labeled"},
		{run: "label configmap one a=e", out: "configmap/one not labeled"},
		{run: "label configmap one --list", out: "…=…\n…=…"},
		{run: "label configmap one c-", out: "configmap/one unlabeled"},
		{run: "label configmap one c-", out: "label \"c\" not found.\nconfigmap/one not labeled"},
		{run: "label configmap -l a=e found=yes", out: "configmap/one labeled"},
		{run: "label configmap --all all=yes", out: "configmap/conf labeled\nconfigmap/kube-root-ca.crt labeled\nconfigmap/one labeled\nconfigmap/seen labeled\nconfigmap/two labeled"},
		{run: "get configmap -l found=yes,all -L a,all", out: "NAME DATA AGE A ALL\none 0 … e yes"},
		{run: "label configmap one --resource-version=1 z=1", code: 1, err: `Error from server (Conflict): Operation cannot be fulfilled on configmaps "one": the object has been modified; please apply your changes to the latest version and try again`},
		{run: "label configmap one 'a=b c' --overwrite", code: 1, err: `error: invalid label value: "a=b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		{run: "label configmap one -a=b", code: 1, err: "…rror: unknown shorthand flag: 'a' in -a=b\nSee '…label --help' for usage."},
		{run: `patch configmap one -p '{"metadata":{"labels":{"-a":"b c"}}}'`, code: 1, err: `
The ConfigMap "one" is invalid:
* metadata.labels: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
* metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
`},
		{run: "annotate configmap one note='a b'", out: "configmap/one annotated"},
		{run: "annotate configmap one note=c", code: 1, err: "error: --overwrite is false but found the following declared annotation(s): 'note' already has a value (a b)"},
		{run: "annotate configmap one note=c --overwrite", out: "configmap/one annotated"},
		{run: "annotate configmap one --list", out: "note=c"},
		{run: "annotate configmap one note-", out: "configmap/one annotated"},
		{run: "annotate configmap --all why=because", out: "configmap/conf annotated\nconfigmap/kube-root-ca.crt annotated\nconfigmap/one annotated\nconfigmap/seen annotated\nconfigmap/two annotated"},
		{run: "annotate configmap -l found=yes why=so --overwrite --dry-run=server", out: "configmap/one annotated (server dry run)"},
		{run: "annotate configmap one --list", out: "why=because"},
		{run: "annotate --local -f - a=b -o jsonpath={.metadata.annotations}", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: local}\n", out: `{"a":"b"}`},
	}
}
