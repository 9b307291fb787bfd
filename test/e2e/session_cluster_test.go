package e2e_test

import "testing"

// clusterSession manages nodes, certificates and rights as an administrator.
func clusterSession(t *testing.T) session {
	return session{name: "cluster", files: map[string]string{
		"good.yaml": certificateRequest(t, "signed"), "bad.yaml": certificateRequest(t, "refused"),
		"rights.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reads, namespace: cluster}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n" +
			"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: reads, namespace: cluster}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads}\nsubjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: kim}]\n",
		"more.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reads, namespace: cluster}\nrules: [{apiGroups: [''], resources: [secrets], verbs: [list]}]\n",
	}, steps: concat(nodeCommands(), certificateCommands(), authCommands(), clusterCommands())}
}

func nodeCommands() []step {
	return []step{
		{until: true, run: "get node node-3 -o wide", out: "NAME STATUS ROLES AGE VERSION INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME\nnode-3 Ready <none> … v1.37.… … <none> … … …"},
		{until: true, run: "describe node node-3", out: `
Name:               node-3
Roles:              <none>
Labels:             …
⋮
                    kubernetes.io/hostname=node-3
⋮
CreationTimestamp:  …
Taints:             <none>
Unschedulable:      false
Lease:
  HolderIdentity:  node-3
  AcquireTime:     …
  RenewTime:       …
Conditions:
⋮
  Ready            True    …
⋮
Non-terminated Pods: …
⋮
Allocated resources:
⋮
`},
		{run: "taint node node-3 {ns}=b:NoSchedule", out: "node/node-3 tainted"},
		{run: "taint node node-3 {ns}=b:NoSchedule", code: 1, err: `error: node node-3 already has {ns} taint(s) with same effect(s) and --overwrite is false`},
		{run: "taint node node-3 {ns}=c:NoSchedule --overwrite", out: "node/node-3 modified"},
		{run: "taint nodes --all {ns}/soft=x:PreferNoSchedule", out: "node/node-1 tainted\nnode/node-2 tainted\nnode/node-3 tainted"},
		{run: "taint nodes --all {ns}/soft-", out: "node/node-1 untainted\nnode/node-2 untainted\nnode/node-3 untainted"},
		{run: "taint node node-3 {ns}:NoSchedule-", out: "node/node-3 untainted"},
		{run: "taint node node-3 {ns}-", code: 1, err: `error: taint "{ns}" not found`},
		{run: "taint node node-3 a=b:Sometimes", code: 1, err: "error: invalid taint effect: Sometimes, unsupported taint effect…\n…"},
		{run: "taint node nothing a=b:NoSchedule", code: 1, err: `Error from server (NotFound): nodes "nothing" not found`},
		{run: "cordon node-3", out: "node/node-3 cordoned"},
		{run: "cordon node-3", out: "node/node-3 already cordoned"},
		{run: "get node node-3", out: "NAME STATUS ROLES AGE VERSION\nnode-3 Ready,SchedulingDisabled <none> … v1.37.…"},
		{until: true, run: "get node node-3 -o jsonpath={.spec.taints[*].key}", out: "node.kubernetes.io/unschedulable"},
		{run: "uncordon node-3", out: "node/node-3 uncordoned"},
		{run: "uncordon node-3", out: "node/node-3 already uncordoned"},
		{run: "cordon nothing", code: 1, err: `Error from server (NotFound): nodes "nothing" not found`},
		{run: "run alone --image=nginx --labels=drained={ns} --overrides='{\"spec\":{\"nodeName\":\"node-3\"}}'", out: "pod/alone created"},
		{run: "drain node-3 --pod-selector=drained={ns}", code: 1, out: "node/node-3 cordoned", err: "error: unable to drain node \"node-3\" due to error: …cannot delete Pods that declare no controller (use --force to override): {ns}/alone, continuing command...\n⋮"},
		{run: "drain node-3 --pod-selector=drained={ns} --force --dry-run=server", out: "⋮\nnode/node-3 drained (server dry run)", err: "Warning: deleting Pods that declare no controller: {ns}/alone"},
		{run: "drain node-3 --pod-selector=drained={ns} --force --grace-period=1", out: "node/node-3 already cordoned\nevicting pod {ns}/alone\npod/alone evicted\nnode/node-3 drained", err: "Warning: deleting Pods that declare no controller: {ns}/alone"},
		{run: "uncordon node-3", out: "node/node-3 uncordoned"},
	}
}

func certificateCommands() []step {
	return []step{
		{run: "create -f good.yaml -f bad.yaml", out: "certificatesigningrequest.certificates.k8s.io/signed created\ncertificatesigningrequest.certificates.k8s.io/refused created"},
		{run: "get csr signed", out: "NAME AGE SIGNERNAME REQUESTOR REQUESTEDDURATION CONDITION\nsigned … example.com/signed kubernetes-admin 60m Pending"},
		{run: "describe csr signed", out: `
Name:                signed
Labels:              <none>
Annotations:         <none>
CreationTimestamp:   …
Requesting User:     kubernetes-admin
Signer:              example.com/signed
Requested Duration:  60m
Status:              Pending
Subject:
         Common Name:    signed
         Serial Number:
Events:  <none>
`},
		{run: "certificate approve signed", out: "certificatesigningrequest.certificates.k8s.io/signed approved"},
		{run: "certificate deny -f bad.yaml", out: "certificatesigningrequest.certificates.k8s.io/refused denied"},
		{run: "get csr signed refused --no-headers", out: "signed … example.com/signed kubernetes-admin 60m Approved\nrefused … example.com/refused kubernetes-admin 60m Denied"},
		{run: "certificate deny signed", code: 1, err: `…`},
		{run: "certificate approve nothing", code: 1, err: `Error from server (NotFound): certificatesigningrequests.certificates.k8s.io "nothing" not found`},
		{run: "delete csr signed refused", out: "certificatesigningrequest.certificates.k8s.io \"signed\" deleted\ncertificatesigningrequest.certificates.k8s.io \"refused\" deleted"},
	}
}

func authCommands() []step {
	return []step{
		{run: "auth reconcile -f rights.yaml", out: "role.rbac.authorization.k8s.io/reads reconciled\nrolebinding.rbac.authorization.k8s.io/reads reconciled", err: `
	reconciliation required create
	missing rules added:
		{Verbs:[get] APIGroups:[] Resources:[pods] ResourceNames:[] NonResourceURLs:[]}
	reconciliation required create
	missing subjects added:
		{Kind:User APIGroup:rbac.authorization.k8s.io Name:kim Namespace:}
`},
		{until: true, run: "auth can-i get pods --as=kim", out: "yes"},
		{run: "auth can-i delete pods --as=kim", code: 1, out: "no"},
		{run: "auth can-i get pods/log --as=kim", out: "yes"}, // kubectl takes this as a pod named "log".
		{run: "auth can-i get pods --subresource=log --as=kim", code: 1, out: "no"},
		{run: "auth can-i get pod/one --as=kim", out: "yes"},
		{run: "auth can-i get pods -A --as=kim", code: 1, out: "no"},
		{run: "auth can-i get pods --as=kim -q"},
		{run: "auth can-i get /healthz --as=kim", out: "yes"},
		{run: "auth can-i '*' '*'", out: "yes"},
		{run: "auth can-i fly pods --as=kim", code: 1, out: "no", err: "Warning: verb 'fly' is not a known verb"},
		{run: "auth can-i get rockets", out: "yes", err: "Warning: the server doesn't have a resource type 'rockets'"},
		{run: "auth can-i get nodes --as=kim", code: 1, out: "no", err: "Warning: resource 'nodes' is not namespace scoped"},
		{run: "auth reconcile -f more.yaml", out: "role.rbac.authorization.k8s.io/reads reconciled", err: "	reconciliation required update\n	missing rules added:\n		{Verbs:[list] APIGroups:[] Resources:[secrets] ResourceNames:[] NonResourceURLs:[]}"},
		{until: true, run: "auth can-i list secrets --as=kim", out: "yes"},
		{run: "auth can-i get pods --as=kim", out: "yes"},
		{run: "auth reconcile -f more.yaml --remove-extra-permissions", out: "role.rbac.authorization.k8s.io/reads reconciled", err: "	reconciliation required update\n	extra rules removed:\n		{Verbs:[get] APIGroups:[] Resources:[pods] ResourceNames:[] NonResourceURLs:[]}"},
		{until: true, run: "auth can-i get pods --as=kim", code: 1, out: "no"},
		{run: "auth whoami -o jsonpath={.status.userInfo.username}", out: "kubernetes-admin"},
		{run: "auth whoami --as=kim --as-group=devs", out: "ATTRIBUTE VALUE\nUsername kim\nGroups [devs system:authenticated]"},
		{run: "get secrets --as=kim --as-group=devs -o name"},
		{run: "get pods --as=kim", code: 1, err: `Error from server (Forbidden): pods is forbidden: User "kim" cannot list resource "pods" in API group "" in the namespace "{ns}"`},
		{run: "delete secret x --as=kim", code: 1, err: `Error from server (Forbidden): secrets "x" is forbidden: User "kim" cannot delete resource "secrets" in API group "" in the namespace "{ns}"`},
	}
}

func clusterCommands() []step {
	return []step{
		{run: "cluster-info", out: "…Kubernetes control plane… is running at …https://127.0.0.1:…\n…CoreDNS… is running at …https://127.0.0.1:…/api/v1/namespaces/kube-system/services/kube-dns:dns/proxy…\n\nTo further debug and diagnose cluster problems, use '…cluster-info dump'."},
		{run: "get cs", until: true, err: "Warning: v1 ComponentStatus is deprecated in v1.19+", out: `
NAME                 STATUS    MESSAGE   ERROR
controller-manager   Healthy   ok
etcd-0               Healthy   ok
scheduler            Healthy   ok`},
		{run: "version -o json", err: "…", out: "⋮\n  \"serverVersion\": {\n    \"major\": \"1\",\n    \"minor\": \"37\",\n⋮"},
		{run: "version --client", out: "Client Version: v1.…\nKustomize Version: v…"},
		{until: true, run: "top nodes", out: "NAME…CPU(cores)…\nnode-1…\nnode-2…\nnode-3…"},
		{run: "top pods", err: "No resources found in {ns} namespace."},
		{run: "config current-context", out: "…"},
		{run: "config view --minify -o jsonpath={.contexts[0].context.namespace}", out: "{ns}"},
		{run: "config get-contexts -o name", out: "…"},
		{run: "config use-context nothing", code: 1, err: `error: no context exists with the name: "nothing"`},
		{run: "config set-context --current --namespace=default", out: "Context \"…\" modified."},
		{run: "config view --minify -o jsonpath={..namespace}", out: "default"},
		{run: "config set-context --current --namespace={ns}", out: "Context \"…\" modified."},
		{run: "get --raw /version", out: "{\n⋮\n  \"minor\": \"37\",\n⋮\n}"},
		{run: "get --raw /healthz?verbose", out: "[+]ping ok\n⋮\nhealthz check passed"},
		{run: "--server=https://127.0.0.1:1 get pods", code: 1, err: "⋮\nThe connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"},
		{run: "cluster-info dump --namespaces={ns} --output-directory=dumped", out: "Cluster info dumped to dumped"},
	}
}
