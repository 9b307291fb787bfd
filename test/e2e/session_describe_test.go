package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// describeSession lists and describes an object of each kind for which "kubectl create" has no
// command. The sessions that create the other kinds describe those.
func describeSession(t *testing.T) session {
	manifest, err := os.ReadFile(filepath.Join("testdata", "kinds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	made := step{run: "create -f kinds.yaml -o name", out: "endpoints/points\n⋮", err: "⋮"}
	return session{name: "describe", files: map[string]string{"kinds.yaml": strings.ReplaceAll(string(manifest), "NS", "describe")},
		steps: concat([]step{made}, describeWorkloads(), describeNetwork(), describeStorage(), describeOthers(), describeRelated())}
}

// template is the description of the pod template in the manifests' workloads.
const template = `
Pod Template:
  Labels:  app=…
  Containers:
   c:
    Image:         nginx
    Port:          <none>
    Host Port:     <none>
    Environment:   <none>
    Mounts:        <none>
  Volumes:         <none>
  Node-Selectors:  …
  Tolerations:     <none>
`

func describeWorkloads() []step {
	return []step{
		{run: "get podtemplates", out: "NAME CONTAINERS IMAGES POD LABELS\ntemplate c nginx app=template"},
		{run: "describe podtemplates template", out: plainly("{ns}", "PodTemplate", "v1")},
		{run: "get rc -o wide", out: "NAME DESIRED CURRENT READY AGE CONTAINERS IMAGES SELECTOR\nold 0 0 0 … c nginx app=old"},
		{run: "describe rc old", out: "Name: old\nNamespace: {ns}\nSelector: app=old\nLabels: …\nAnnotations: <none>\nReplicas: 0 current / 0 desired\n" +
			"Pods Status: 0 Running / 0 Waiting / 0 Succeeded / 0 Failed" + template + "Events: <none>"},
		{run: "get controllerrevisions", out: "NAME CONTROLLER REVISION AGE\neach-… daemonset.apps/each 1 …\nrevision <none> 3 …\nstate-… statefulset.apps/state 1 …"},
		{run: "describe controllerrevisions revision", out: plainly("{ns}", "ControllerRevision", "apps/v1")},
		{run: "get daemonsets -o wide", out: "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE CONTAINERS IMAGES SELECTOR\neach 0 0 0 0 0 never=here … c nginx app=each"},
		{run: "describe ds each", out: "Name: each\nNamespace: {ns}\nSelector: app=each\nNode-Selector: never=here\nLabels: <none>\nAnnotations: …\n" +
			"Desired Number of Nodes Scheduled: 0\nCurrent Number of Nodes Scheduled: 0\nNumber of Nodes Scheduled with Up-to-date Pods: 0\nNumber of Nodes Scheduled with Available Pods: 0\n" +
			"Number of Nodes Misscheduled: 0\nPods Status: 0 Running / 0 Waiting / 0 Succeeded / 0 Failed" + template + "Events: <none>"},
		{run: "get rs -o wide", out: "NAME DESIRED CURRENT READY AGE CONTAINERS IMAGES SELECTOR\nset 0 0 0 … c nginx app=set"},
		{run: "describe rs set", out: "Name: set\nNamespace: {ns}\nSelector: app=set\nLabels: <none>\nAnnotations: <none>\nReplicas: 0 current / 0 desired\n" +
			"Pods Status: 0 Running / 0 Waiting / 0 Succeeded / 0 Failed" + template + "Events: <none>"},
		{run: "get sts -o wide", out: "NAME READY AGE CONTAINERS IMAGES\nstate 0/0 … c nginx"},
		{run: "describe sts state", out: "Name: state\nNamespace: {ns}\nCreationTimestamp: …\nSelector: app=state\nLabels: <none>\nAnnotations: <none>\n⋮\nReplicas: 0 desired | 0 total\n⋮\n" +
			"Pods Status: 0 Running / 0 Waiting / 0 Succeeded / 0 Failed" + template + "Volume Claims: <none>\nEvents: <none>"},
		{run: "get hpa", out: "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE\nscaler Deployment/web cpu: <unknown>/80% 2 5 0 …"},
		{run: "wait --for=condition=AbleToScale=False hpa/scaler --timeout=60s", out: "horizontalpodautoscaler.autoscaling/scaler condition met"},
		{run: "describe hpa scaler", out: `
Name:                                                  scaler
Namespace:                                             {ns}
Labels:                                                <none>
Annotations:                                           <none>
CreationTimestamp:                                     …
Reference:                                             Deployment/web
Metrics:                                               ( current / target )
  resource cpu on pods  (as a percentage of request):  <unknown> / 80%
Min replicas:                                          2
Max replicas:                                          5
⋮
Deployment pods:                                       0 current / 0 desired
Conditions:
  Type         Status  Reason          Message
  ----         ------  ------          -------
  AbleToScale  False   FailedGetScale  the HPA controller was unable to get the target's current scale: deployments.apps "web" not found
⋮
`},
		{run: "get limitranges", out: "NAME CREATED AT\nlimits 20…Z"},
		{run: "describe limits limits", out: `
Name:       limits
Namespace:  {ns}
Type        Resource  Min  Max  Default Request  Default Limit  Max Limit/Request Ratio
----        --------  ---  ---  ---------------  -------------  -----------------------
Container   cpu       -    2    500m             1              -
`},
	}
}

func describeNetwork() []step {
	return []step{
		{run: "get endpoints", out: "NAME ENDPOINTS AGE\npoints 192.0.2.1:80,192.0.2.2:80 …", err: "…"},
		{run: "describe endpoints points", out: `
Name:         points
Namespace:    {ns}
Labels:       …
Annotations:  …
Subsets:
  Addresses:          192.0.2.1,192.0.2.2
  NotReadyAddresses:  <none>
  Ports:
    Name  Port  Protocol
    ----  ----  --------
    http  80    TCP

Events:  <none>
`, err: "…"},
		{run: "get endpointslices", out: "NAME ADDRESSTYPE PORTS ENDPOINTS AGE\n⋮\nslice IPv4 80 192.0.2.1 …"},
		{run: "describe endpointslice slice", out: `
Name:         slice
Namespace:    {ns}
Labels:       <none>
Annotations:  <none>
AddressType:  IPv4
Ports:
  Name  Port  Protocol
  ----  ----  --------
  http  80    TCP
Endpoints:
  - Addresses:  192.0.2.1
    Conditions:
      Ready:   true
    Hostname:  <unset>
    NodeName:  <unset>
    Zone:      <unset>
Events:        <none>
`},
		{run: "get netpol", out: "NAME POD-SELECTOR AGE\npolicy app=web …"},
		{run: "describe netpol policy", out: `
Name:         policy
Namespace:    {ns}
Created on:   …
Labels:       <none>
Annotations:  <none>
Spec:
  PodSelector:     app=web
  Allowing ingress traffic:
    To Port: 80/TCP
    From:
      PodSelector: role=front
  Not affecting egress traffic
  Policy Types: Ingress
`},
		{run: "get ingressclass {ns}-class", out: "NAME CONTROLLER PARAMETERS AGE\n{ns}-class example.com/ingress <none> …"},
		{run: "describe ingressclass {ns}-class", out: "Name: {ns}-class\nLabels: <none>\nAnnotations: <none>\nController: example.com/ingress\nEvents: <none>"},
		{run: "get servicecidr {ns}-cidr", out: "NAME CIDRS AGE\n{ns}-cidr 10.200.0.0/24 …"},
		{run: "describe servicecidr {ns}-cidr", out: "Name: {ns}-cidr\nLabels: <none>\nAnnotations: <none>\nCIDRs: 10.200.0.0/24\n⋮\nEvents: <none>"},
		{run: "get ipaddress 10.96.0.1", out: "NAME PARENTREF\n10.96.0.1 services/default/kubernetes"},
		{run: "describe ipaddress 10.96.0.1", out: `
Name:         10.96.0.1
Labels:       ipaddress.kubernetes.io/ip-family=IPv4
              ipaddress.kubernetes.io/managed-by=ipallocator.k8s.io
Annotations:  <none>
Parent Reference:
  Group:
  Resource:   services
  Namespace:  default
  Name:       kubernetes
Events:       <none>
`},
	}
}

func describeStorage() []step {
	return []step{
		{run: "get pv {ns}-volume", out: "NAME CAPACITY ACCESS MODES RECLAIM POLICY STATUS CLAIM STORAGECLASS VOLUMEATTRIBUTESCLASS REASON AGE\n{ns}-volume 1Gi RWO Retain … {ns}-class <unset> …"},
		{run: "describe pv {ns}-volume", out: `
Name:            {ns}-volume
Labels:          <none>
Annotations:     pv.kubernetes.io/bound-by-controller: yes
Finalizers:      …
StorageClass:    {ns}-class
Status:          Bound
Claim:           {ns}/claim
Reclaim Policy:  Retain
Access Modes:    RWO
VolumeMode:      Filesystem
Capacity:        1Gi
Node Affinity:   <none>
Message:
Source:
    Type:          HostPath (bare host directory volume)
    Path:          /tmp/volume
    HostPathType:
Events:            <none>
`},
		{run: "get pvc -o wide", out: "NAME STATUS VOLUME CAPACITY ACCESS MODES STORAGECLASS VOLUMEATTRIBUTESCLASS AGE VOLUMEMODE\nclaim Bound {ns}-volume 1Gi RWO {ns}-class <unset> … Filesystem"},
		{run: "describe pvc claim", out: "Name: claim\nNamespace: {ns}\nStorageClass: {ns}-class\nStatus: Bound\nVolume: {ns}-volume\nLabels: <none>\nAnnotations: pv.kubernetes.io/bind-completed: yes\n⋮\nFinalizers: [kubernetes.io/pvc-protection]\nCapacity: 1Gi\nAccess Modes: RWO\nVolumeMode: Filesystem\nUsed By: <none>\n⋮\nEvents:…\n⋮"},
		{run: "get sc {ns}-class", out: "NAME PROVISIONER RECLAIMPOLICY VOLUMEBINDINGMODE ALLOWVOLUMEEXPANSION AGE\n{ns}-class example.com/storage Delete Immediate false …"},
		{run: "describe sc {ns}-class", out: "Name: {ns}-class\nIsDefaultClass: No\nAnnotations: <none>\nProvisioner: example.com/storage\nParameters: <none>\nAllowVolumeExpansion: <unset>\nMountOptions: <none>\nReclaimPolicy: Delete\nVolumeBindingMode: Immediate\nEvents: <none>"},
		{run: "get csidriver {ns}.example.com", out: "NAME ATTACHREQUIRED PODINFOONMOUNT STORAGECAPACITY TOKENREQUESTS REQUIRESREPUBLISH MODES AGE\n{ns}.example.com true false false <unset> false Persistent …"},
		{run: "describe csidriver {ns}.example.com", out: plainly("", "CSIDriver", "storage.k8s.io/v1")},
		{run: "get csinode {ns}-node", out: "NAME DRIVERS AGE\n{ns}-node 1 …"},
		{run: "describe csinode {ns}-node", out: "Name: {ns}-node\nLabels: <none>\nAnnotations: <none>\nCreationTimestamp: …\nSpec:\n  Drivers:\n    {ns}.example.com:\n      Node ID: instance-1\nEvents: <none>"},
		{run: "get csistoragecapacities", out: "NAME CREATED AT\ncapacity 20…Z"},
		{run: "describe csistoragecapacity capacity", out: plainly("{ns}", "CSIStorageCapacity", "storage.k8s.io/v1")},
		{run: "get volumeattachment {ns}-attachment", out: "NAME ATTACHER PV NODE ATTACHED AGE\n{ns}-attachment {ns}.example.com {ns}-volume node-1 false …"},
		{run: "describe volumeattachment {ns}-attachment", out: plainly("", "VolumeAttachment", "storage.k8s.io/v1")},
		{run: "get vac {ns}-attributes", out: "NAME DRIVERNAME AGE\n{ns}-attributes {ns}.example.com …"},
		{run: "describe vac {ns}-attributes", out: "Name: {ns}-attributes\nAnnotations: <none>\nDriverName: {ns}.example.com\nParameters: iops=3000\nEvents: <none>"},
	}
}

func describeOthers() []step {
	return []step{
		{run: "get lease", out: "NAME HOLDER AGE\nlease me …"},
		{run: "describe lease lease", out: plainly("{ns}", "Lease", "coordination.k8s.io/v1")},
		{run: "get runtimeclass {ns}-runtime", out: "NAME HANDLER AGE\n{ns}-runtime gvisor …"},
		{run: "describe runtimeclass {ns}-runtime", out: plainly("", "RuntimeClass", "node.k8s.io/v1")},
		{run: "get validatingwebhookconfiguration {ns}-validating", out: "NAME WEBHOOKS AGE\n{ns}-validating 1 …"},
		{run: "describe validatingwebhookconfiguration {ns}-validating", out: plainly("", "ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1")},
		{run: "get mutatingwebhookconfiguration {ns}-mutating", out: "NAME WEBHOOKS AGE\n{ns}-mutating 1 …"},
		{run: "describe mutatingwebhookconfiguration {ns}-mutating", out: plainly("", "MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1")},
		{run: "get validatingadmissionpolicy {ns}-policy", out: "NAME VALIDATIONS PARAMKIND AGE\n{ns}-policy 1 <unset> …"},
		{run: "describe validatingadmissionpolicy {ns}-policy", out: plainly("", "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1")},
		{run: "get validatingadmissionpolicybinding {ns}-policy", out: "NAME POLICYNAME PARAMREF AGE\n{ns}-policy {ns}-policy <unset> …"},
		{run: "describe validatingadmissionpolicybinding {ns}-policy", out: plainly("", "ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io/v1")},
		{run: "get apiservice v1.{ns}.example.com", out: "NAME SERVICE AVAILABLE AGE\nv1.{ns}.example.com {ns}/api … …"},
		{run: "describe apiservice v1.{ns}.example.com", out: plainly("", "APIService", "apiregistration.k8s.io/v1")},
		{run: "get prioritylevelconfiguration {ns}-level", out: "NAME TYPE NOMINALCONCURRENCYSHARES QUEUES HANDSIZE QUEUELENGTHLIMIT AGE\n{ns}-level Limited 5 <none> <none> <none> …"},
		{run: "describe prioritylevelconfiguration {ns}-level", out: plainly("", "PriorityLevelConfiguration", "flowcontrol.apiserver.k8s.io/v1")},
		{run: "get flowschema {ns}-flow", out: "NAME PRIORITYLEVEL MATCHINGPRECEDENCE DISTINGUISHERMETHOD AGE MISSINGPL\n{ns}-flow {ns}-level 1000 <none> … ?"},
		{run: "describe flowschema {ns}-flow", out: plainly("", "FlowSchema", "flowcontrol.apiserver.k8s.io/v1")},
		{run: "get deviceclass {ns}-devices", out: "NAME AGE\n{ns}-devices …"},
		{run: "describe deviceclass {ns}-devices", out: plainly("", "DeviceClass", "resource.k8s.io/v1")},
		{run: "get resourceclaim", out: "NAME STATE AGE\ndevices pending …"},
		{run: "describe resourceclaim devices", out: plainly("{ns}", "ResourceClaim", "resource.k8s.io/v1")},
		{run: "get resourceclaimtemplate", out: "NAME AGE\ndevices …"},
		{run: "describe resourceclaimtemplate devices", out: plainly("{ns}", "ResourceClaimTemplate", "resource.k8s.io/v1")},
		{run: "get resourceslice {ns}-slice", out: "NAME NODE DRIVER POOL AGE\n{ns}-slice node-1 example.com node-1 …"},
		{run: "describe resourceslice {ns}-slice", out: plainly("", "ResourceSlice", "resource.k8s.io/v1")},
		{run: "delete -f kinds.yaml --wait=false -o name", out: "⋮", err: "⋮"},
	}
}

// plainly returns the generic description that kubectl prints for a kind without a describer.
func plainly(namespace, kind, version string) string {
	return "Name: …\nNamespace: " + namespace + "\nLabels: …\nAnnotations: …\n⋮\nAPI Version: " + version + "\n⋮\nKind: " + kind + "\n⋮\nMetadata:\n⋮\n  Creation Timestamp: 20…Z\n⋮\n  UID: …\n⋮\nEvents: <none>"
}

// describeRelated describes objects that kubectl shows together with related ones.
func describeRelated() []step {
	return []step{
		// The deleted LimitRange no longer applies.
		{until: true, run: "run dry --image=nginx --dry-run=server -o jsonpath={.spec.containers[0].resources}", out: "{}"},
		{run: "create -f -", out: "pod/one created", stdin: `apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: one}}
spec:
  volumes: [{name: conf, configMap: {name: kube-root-ca.crt}}]
  containers:
  - {name: c, image: nginx, ports: [{containerPort: 80}], env: [{name: A, value: b}], resources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}, volumeMounts: [{name: conf, mountPath: /conf}], readinessProbe: {httpGet: {port: 80}}}
`},
		{run: "wait --for=condition=Ready pod/one --timeout=150s", out: "pod/one condition met"},
		{until: true, run: "describe pod one", out: `
Name:             one
Namespace:        {ns}
Priority:         0
Service Account:  default
Node:             node-…/…
Start Time:       …
Labels:           app=one
Annotations:      <none>
Status:           Running
IP:               10.…
IPs:
  IP:  10.…
Containers:
  c:
    Container ID:   …
    Image:          nginx
    Image ID:       …
    Port:           80/TCP
    Host Port:      0/TCP
    State:          Running
      Started:      …
    Ready:          True
    Restart Count:  0
    Limits:
      memory:  64Mi
    Requests:
      cpu:      10m
      memory:   64Mi
    Readiness:  http-get http://:80/ delay=0s timeout=1s period=10s …=1 …=3
    Environment:
      A:  b
    Mounts:
      /conf from conf (rw)
      /var/run/secrets/kubernetes.io/serviceaccount from kube-api-access-… (ro)
Conditions:
  Type                        Status
  PodReadyToStartContainers   True
  Initialized                 True
  Ready                       True
  ContainersReady             True
  PodScheduled                True
Volumes:
  conf:
    Type:      ConfigMap (a volume populated by a ConfigMap)
    Name:      kube-root-ca.crt
    Optional:  false
  kube-api-access-…:
    Type:                    Projected (a volume that contains injected data from multiple sources)
    TokenExpirationSeconds:  3607
    ConfigMapName:           kube-root-ca.crt
    Optional:                false
    DownwardAPI:             true
QoS Class:                   Burstable
Node-Selectors:              <none>
Tolerations:                 node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
                             node.kubernetes.io/unreachable:NoExecute op=Exists for 300s
Events:
  Type …   Reason     Age   From               Message
  ---- …   ------     ----  ----               -------
⋮
  Normal   Scheduled  …    default-scheduler  Successfully assigned {ns}/one to node-…
⋮
`},
		// The scheduler may report the binding after the node has started the pod.
		{until: true, run: "describe pod one", out: "⋮\n  Normal  Pull…\n⋮\n  Normal  Created …\n⋮\n  Normal  Started …\n⋮"},
		{run: "describe pod -l app=one --show-events=false", out: "Name: one\n⋮\nTolerations: …\n …"},
		{run: "describe pod nothing", code: 1, err: `Error from server (NotFound): pods "nothing" not found`},
		{run: "create quota bound --hard=pods=5", out: "resourcequota/bound created"},
		{until: true, run: "describe namespace {ns}", out: `
Name:         {ns}
Labels:       kubernetes.io/metadata.name={ns}
Annotations:  <none>
Status:       Active

Resource Quotas
  Name:     bound
  Resource  Used  Hard
  --------  ---   ---
  pods      1     5

No LimitRange resource.
`},
		{run: "describe configmap kube", out: "Name: kube-root-ca.crt\nNamespace: {ns}\n⋮"},
		{run: "describe priorityclass system-node-critical", out: "Name: system-node-critical\nValue: 2000001000\nGlobalDefault: false\nPreemptionPolicy: PreemptLowerPriority\nDescription: …\nAnnotations: <none>\nEvents: <none>"},
	}
}
