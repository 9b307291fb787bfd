package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
)

// createSession creates an object with each of the commands of "kubectl create".
func createSession(t *testing.T) session {
	certificate, key := certificate(t)
	return session{
		name:  "create",
		files: map[string]string{"app.properties": "a=1\nb=2\n", "plain": "text", "tls.crt": certificate, "tls.key": key},
		steps: concat(createAccess(), createConfiguration(), createWorkloads(), createServices(), createPolicies()),
	}
}

func createAccess() []step {
	return []step{
		{run: "create clusterrole {ns}-reads --verb=get,list,watch --resource=pods,deployments.apps/scale", out: "clusterrole.rbac.authorization.k8s.io/{ns}-reads created"},
		{run: "get clusterrole {ns}-reads -o wide", out: "NAME CREATED AT\n{ns}-reads 20…Z"},
		{run: "describe clusterrole {ns}-reads", out: `
Name:         {ns}-reads
Labels:       <none>
Annotations:  <none>
PolicyRule:
  Resources               Non-Resource URLs  Resource Names  Verbs
  ---------               -----------------  --------------  -----
  pods                    []                 []              [get list watch]
  deployments.apps/scale  []                 []              [get list watch]
`},
		{run: "create clusterrole {ns}-urls --verb=get --non-resource-url=/logs/*", out: "clusterrole.rbac.authorization.k8s.io/{ns}-urls created"},
		{run: "create clusterrole {ns}-all --aggregation-rule=garboard.io/{ns}=yes", out: "clusterrole.rbac.authorization.k8s.io/{ns}-all created"},
		{run: "label clusterrole {ns}-urls garboard.io/{ns}=yes", out: "clusterrole.rbac.authorization.k8s.io/{ns}-urls labeled"},
		{until: true, run: "get clusterrole {ns}-all -o jsonpath={.rules}", out: `[{"nonResourceURLs":["/logs/*"],"verbs":["get"]}]`},
		{run: "create clusterrole {ns}-bad --verb=fly --resource=pods --dry-run=client -o name", out: "clusterrole.rbac.authorization.k8s.io/{ns}-bad", err: "Warning: 'fly' is not a standard resource verb"},
		{run: "create clusterrole {ns}-bad --verb=get --resource=rockets", code: 1, err: `the server doesn't have a resource type "rockets"`},
		{run: "create clusterrolebinding {ns}-binding --clusterrole={ns}-reads --user=ann --group=devs --serviceaccount={ns}:default", out: "clusterrolebinding.rbac.authorization.k8s.io/{ns}-binding created"},
		{run: "get clusterrolebinding {ns}-binding -o wide", out: `
NAME         ROLE              AGE   USERS  GROUPS  SERVICEACCOUNTS
{ns}-binding ClusterRole/{ns}-reads … ann   devs    {ns}/default
`},
		{run: "describe clusterrolebinding {ns}-binding", out: `
Name:         {ns}-binding
Labels:       <none>
Annotations:  <none>
Role:
  Kind:  ClusterRole
  Name:  {ns}-reads
Subjects:
  Kind            Name     Namespace
  ----            ----     ---------
  User            ann
  Group           devs
  ServiceAccount  default  {ns}
`},
		{run: "create role reads --verb=get --resource=configmaps --resource-name=one,two", out: "role.rbac.authorization.k8s.io/reads created"},
		{run: "describe role reads", out: `
Name:         reads
Labels:       <none>
Annotations:  <none>
PolicyRule:
  Resources   Non-Resource URLs  Resource Names  Verbs
  ---------   -----------------  --------------  -----
  configmaps  []                 [one,two]       [get]
`},
		{run: "create rolebinding reads --role=reads --serviceaccount={ns}:robot", out: "rolebinding.rbac.authorization.k8s.io/reads created"},
		{run: "get rolebinding reads", out: "NAME ROLE AGE\nreads Role/reads …"},
		{run: "create serviceaccount robot", out: "serviceaccount/robot created"},
		{run: "get serviceaccount robot", out: "NAME … AGE\nrobot …"},
		{run: "describe serviceaccount robot", out: `
Name:                robot
Namespace:           {ns}
Labels:              <none>
Annotations:         <none>
Image pull secrets:  <none>
⋮
Events:              <none>
`},
		{run: "create token robot --audience=example --duration=10m", out: "e….….…"},
		{run: "create token robot --duration=1m", code: 1, err: `error: failed to create token: TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes`},
		{run: "create token nobody", code: 1, err: `error: failed to create token: serviceaccounts "nobody" not found`},
	}
}

func createConfiguration() []step {
	return []step{
		{run: "create configmap conf --from-literal=a=b --from-file=app.properties --from-file=renamed=plain", out: "configmap/conf created"},
		{run: "get configmap conf -o wide", out: "NAME DATA AGE\nconf 3 …"},
		{run: "get configmap conf -o jsonpath={.data}", out: `{"a":"b","app.properties":"a=1\nb=2\n","renamed":"text"}`},
		{run: "describe configmap conf", out: `
Name:         conf
Namespace:    {ns}
Labels:       <none>
Annotations:  <none>

Data
====
a:
----
b

app.properties:
----
a=1
b=2


renamed:
----
text


BinaryData
====

Events:  <none>
`},
		{run: "create configmap env --from-env-file=app.properties", out: "configmap/env created"},
		{run: "get configmap env -o jsonpath={.data}", out: `{"a":"1","b":"2"}`},
		{run: "create configmap hashed --from-literal=a=b --append-hash -o name", out: "configmap/hashed-…"},
		{run: "create configmap conf", code: 1, err: `error: failed to create configmap: configmaps "conf" already exists`},
		{run: "create configmap bad --from-literal=a", code: 1, err: "error: invalid literal source a, expected key=value"},
		{run: "create configmap bad --from-literal=a%b=c", code: 1, err: `error: "a%b" is not a valid key name for a ConfigMap: a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`},
		{run: "create secret generic plain --from-literal=user=ann --from-literal=password=secret", out: "secret/plain created"},
		{run: "get secret plain -o wide", out: "NAME TYPE DATA AGE\nplain Opaque 2 …"},
		{run: "get secret plain -o jsonpath={.data.user}", out: "YW5u"},
		{run: "describe secret plain", out: `
Name:         plain
Namespace:    {ns}
Labels:       <none>
Annotations:  <none>

Type:  Opaque

Data
====
password:  6 bytes
user:      3 bytes
`},
		{run: "create secret docker-registry registry --docker-server=example.com --docker-username=ann --docker-password=pw --docker-email=ann@example.com", out: "secret/registry created"},
		{run: "get secret registry", out: "NAME TYPE DATA AGE\nregistry kubernetes.io/dockerconfigjson 1 …"},
		{run: "create secret tls tls --cert=tls.crt --key=tls.key", out: "secret/tls created"},
		{run: "get secret tls", out: "NAME TYPE DATA AGE\ntls kubernetes.io/tls 2 …"},
		{run: "create secret generic half --type=kubernetes.io/tls --from-literal=tls.crt=x", code: 1, err: `error: failed to create secret Secret "half" is invalid: data[tls.key]: Required value`},
		{run: "create secret generic half --type=kubernetes.io/basic-auth", code: 1, err: `error: failed to create secret Secret "half" is invalid: [data[username]: Required value, data[password]: Required value]`},
		{run: "create namespace {ns}-more", out: "namespace/{ns}-more created"},
		{run: "get namespace {ns}-more -o wide", out: "NAME STATUS AGE\n{ns}-more Active …"},
		{run: "describe namespace {ns}-more", out: `
Name:         {ns}-more
Labels:       kubernetes.io/metadata.name={ns}-more
Annotations:  <none>
Status:       Active

No resource quota.

No LimitRange resource.
`},
		{run: "delete namespace {ns}-more --wait=false", out: `namespace "{ns}-more" deleted`},
		{run: "create namespace Bad_name", code: 1, err: `The Namespace "Bad_name" is invalid: metadata.name: Invalid value: "Bad_name": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
	}
}

func createWorkloads() []step {
	return []step{
		{run: "create deployment web --image=nginx:1 --replicas=2 --port=80", out: "deployment.apps/web created"},
		{run: "rollout status deployment/web", out: "⋮\ndeployment \"web\" successfully rolled out"},
		{run: "get deployment web -o wide", out: `
NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR
web 2/2 2 2 … nginx nginx:1 app=web
`},
		{until: true, run: "describe deployment web", out: `
Name:                   web
Namespace:              {ns}
CreationTimestamp:      …
Labels:                 app=web
Annotations:            deployment.kubernetes.io/revision: 1
Selector:               app=web
Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable
StrategyType:           RollingUpdate
MinReadySeconds:        0
RollingUpdateStrategy:  25% max unavailable, 25% max surge
Pod Template:
  Labels:  app=web
  Containers:
   nginx:
    Image:         nginx:1
    Port:          80/TCP
    Host Port:     0/TCP
    Environment:   <none>
    Mounts:        <none>
  Volumes:         <none>
  Node-Selectors:  <none>
  Tolerations:     <none>
Conditions:
  Type           Status  Reason
  ----           ------  ------
  Available      True    MinimumReplicasAvailable
  Progressing    True    NewReplicaSetAvailable
OldReplicaSets:  <none>
NewReplicaSet:   web-… (2/2 replicas created)
Events:
  Type    Reason             Age   From                   Message
  ----    ------             ----  ----                   -------
  Normal  ScalingReplicaSet  …  deployment-controller  Scaled up replica set web-… from 0 to 2
`},
		{run: "create deployment two --image=nginx --image=busybox:1 --replicas=0 -o jsonpath={.spec.template.spec.containers[*].name}", out: "nginx busybox"},
		{run: "create deployment sleeps --image=busybox --replicas=0 -- sleep 1h", out: "deployment.apps/sleeps created"},
		{run: "get deployment sleeps -o jsonpath={.spec.template.spec.containers[0].command}", out: `["sleep","1h"]`},
		{run: "create deployment web", code: 1, err: `…required flag(s) …image… not set…`},
		{run: "create job once --image=busybox -- date", out: "job.batch/once created"},
		{run: "get job once -o wide", out: `
NAME STATUS COMPLETIONS DURATION AGE CONTAINERS IMAGES SELECTOR
once … … once busybox batch.kubernetes.io/controller-uid=…
`},
		{run: "describe job once", out: `
Name:             once
Namespace:        {ns}
Selector:         batch.kubernetes.io/controller-uid=…
Labels:           …
⋮
Annotations:      <none>
Parallelism:      1
Completions:      1
Completion Mode:  NonIndexed
Suspend:          false
Backoff Limit:    6
⋮
Pods Statuses:    …
Pod Template:
  Labels:  batch.kubernetes.io/controller-uid=…
           batch.kubernetes.io/job-name=once
           controller-uid=…
           job-name=once
  Containers:
   once:
    Image:      busybox
    Port:       <none>
    Host Port:  <none>
    Command:
      date
    Environment:   <none>
    Mounts:        <none>
  Volumes:         <none>
  Node-Selectors:  <none>
  Tolerations:     <none>
Events:…
⋮
`},
		{run: "create cronjob yearly --image=busybox --schedule='0 0 1 1 *' --restart=Never -- date", out: "cronjob.batch/yearly created"},
		{run: "get cronjob yearly -o wide", out: `
NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE CONTAINERS IMAGES SELECTOR
yearly 0 0 1 1 * <none> False 0 <none> … yearly busybox <none>
`},
		{run: "describe cronjob yearly", out: `
Name:                          yearly
Namespace:                     {ns}
Labels:                        <none>
Annotations:                   <none>
Schedule:                      0 0 1 1 *
Concurrency Policy:            Allow
Suspend:                       False
⋮
Successful Job History Limit:  3
Failed Job History Limit:      1
Starting Deadline Seconds:     <unset>
Selector:                      <unset>
Parallelism:                   <unset>
Completions:                   <unset>
Pod Template:
  Labels:  <none>
  Containers:
   yearly:
    Image:      busybox
    Port:       <none>
    Host Port:  <none>
    Command:
      date
    Environment:     <none>
    Mounts:          <none>
  Volumes:           <none>
  Node-Selectors:    <none>
  Tolerations:       <none>
Last Schedule Time:  <unset>
Active Jobs:         <none>
Events:              <none>
`},
		{run: "create cronjob bad --image=busybox --schedule=never", code: 1, err: `error: failed to create cronjob: CronJob.batch "bad" is invalid: spec.schedule: Invalid value: "never": expected exactly 5 fields, found 1: [never]`},
		{run: "create job now --from=cronjob/yearly", out: "job.batch/now created"},
		{run: "get job now -o jsonpath={.metadata.annotations}{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}", out: `{"cronjob.kubernetes.io/instantiate":"manual"}CronJob/yearly`},
		{run: "create job now --from=deployment/web", code: 1, err: "error: unknown object type *v1.Deployment"},
	}
}

func createServices() []step {
	return []step{
		{run: "create service clusterip inner --tcp=80:8080 --tcp=443", out: "service/inner created"},
		{run: "get service inner -o wide", out: "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR\ninner ClusterIP 10.… <none> 80/TCP,443/TCP … app=inner"},
		{until: true, run: "describe service inner", out: `
Name:                     inner
Namespace:                {ns}
Labels:                   app=inner
Annotations:              <none>
Selector:                 app=inner
Type:                     ClusterIP
IP Family Policy:         SingleStack
IP Families:              IPv4
IP:                       10.…
IPs:                      10.…
Port:                     80-8080  80/TCP
TargetPort:               8080/TCP
Endpoints:                …
Port:                     443  443/TCP
TargetPort:               443/TCP
Endpoints:                …
Session Affinity:         None
Internal Traffic Policy:  Cluster
Events:                   <none>
`},
		{run: "create service clusterip none --clusterip=None", out: "service/none created"},
		{run: "get service none", out: "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nnone ClusterIP None <none> <none> …"},
		{run: "create service clusterip taken --tcp=80 --clusterip=10.96.0.1", code: 1, err: `error: failed to create ClusterIP service: Service "taken" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated`},
		{run: "create service nodeport outer --tcp=80:8080 --node-port=30034", out: "service/outer created"},
		{run: "get service outer", out: "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nouter NodePort 10.… <none> 80:30034/TCP …"},
		{run: "create service nodeport outer2 --tcp=80 --node-port=30034", code: 1, err: `error: failed to create NodePort service: Service "outer2" is invalid: spec.ports[0].nodePort: Invalid value: 30034: provided port is already allocated`},
		{run: "create service nodeport outer2 --tcp=80 --node-port=80", code: 1, err: `error: failed to create NodePort service: Service "outer2" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767`},
		{run: "create service loadbalancer balanced --tcp=80", out: "service/balanced created"},
		{run: "get service balanced", out: "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nbalanced LoadBalancer 10.… <pending> 80:3…/TCP …"},
		{run: "create service externalname outside --external-name=example.com", out: "service/outside created"},
		{run: "get service outside", out: "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\noutside ExternalName <none> example.com <none> …"},
		{run: "create ingress front --class=nginx --rule=foo.com/bar*=inner:80,tls=tls --rule=*.com/=inner:named --default-backend=inner:80 --annotation=a=b", out: "ingress.networking.k8s.io/front created"},
		{run: "get ingress front -o wide", out: "NAME CLASS HOSTS ADDRESS PORTS AGE\nfront nginx foo.com,*.com 80, 443 …"},
		{until: true, run: "describe ingress front", out: `
Name:             front
Labels:           <none>
Namespace:        {ns}
Address:
Ingress Class:    nginx
Default backend:  inner:80 (…)
TLS:
  tls terminates foo.com
Rules:
  Host        Path  Backends
  ----        ----  --------
  foo.com
              /bar   inner:80 (…)
  *.com
              /   inner:named (…)
Annotations:  a: b
Events:       <none>
`},
		{run: "create ingress bad --rule=foo.com/bar", code: 1, err: "error: rule foo.com/bar is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]"},
	}
}

func createPolicies() []step {
	return []step{
		{run: "create poddisruptionbudget web --selector=app=web --min-available=1", out: "poddisruptionbudget.policy/web created"},
		{until: true, run: "get pdb web", out: "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE\nweb 1 N/A 1 …"},
		{run: "describe pdb web", out: `
Name:           web
Namespace:      {ns}
Min available:  1
Selector:       app=web
Status:
    Allowed disruptions:  1
    Current:              2
    Desired:              1
    Total:                2
Events:                   <none>
`},
		{run: "create pdb both --selector=app=web --min-available=1 --max-unavailable=1", code: 1, err: "error: min-available and max-unavailable cannot be both specified"},
		{run: "create priorityclass {ns}-high --value=1000 --description=important --preemption-policy=Never", out: "priorityclass.scheduling.k8s.io/{ns}-high created"},
		{run: "get priorityclass {ns}-high", out: "NAME VALUE GLOBAL-DEFAULT AGE PREEMPTIONPOLICY\n{ns}-high 1000 false … Never"},
		{run: "describe priorityclass {ns}-high", out: `
Name:              {ns}-high
Value:             1000
GlobalDefault:     false
PreemptionPolicy:  Never
Description:       important
Annotations:       <none>
Events:            <none>
`},
		{run: "create priorityclass {ns}-bad --value=2000000000", code: 1, err: `error: failed to create priorityclass: PriorityClass.scheduling.k8s.io "{ns}-bad" is invalid: value: Forbidden: maximum allowed value of a user defined priority is 1000000000`},
		{run: "create quota counted --hard=pods=10,services=10,secrets=8 --scopes=NotBestEffort", code: 1, err: `error: failed to create quota: ResourceQuota "counted" is invalid: …`},
		{run: "create quota counted --hard=services=10,requests.cpu=4,count/jobs.batch=5", out: "resourcequota/counted created"},
		{until: true, run: "describe quota counted", out: `
Name:             counted
Namespace:        {ns}
Resource          Used  Hard
--------          ----  ----
count/jobs.batch  2     5
requests.cpu      0     4
services          5     10
`},
		{run: "delete quota counted", out: `resourcequota "counted" deleted…`},
		{run: "create quota bad --hard=pods=many", code: 1, err: "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
	}
}

// certificate returns a self-signed certificate and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"example.com"}}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}
