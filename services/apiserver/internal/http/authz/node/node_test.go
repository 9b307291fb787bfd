package node_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/bootstraproles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pods stands for the feed of pods.
type pods []*corev1.Pod

func (p pods) Cached(namespace, name string) (scheme.Object, bool) {
	for _, pod := range p {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

func (p pods) CachedIn(view fabric.View) []scheme.Object {
	var in []scheme.Object
	for _, pod := range p {
		if pod.Spec.NodeName == view.Scope {
			in = append(in, pod)
		}
	}
	return in
}

func agent(name string) authn.User {
	return authn.User{Name: authn.NodePrefix + name, Groups: []string{authn.GroupNodes, authn.GroupAuthenticated}}
}

// everywhere returns a pod that refers to an object in every place where a pod can.
func everywhere() *corev1.Pod {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	pointer := func(name string) *corev1.LocalObjectReference { ref := local(name); return &ref }
	container := func(name string) corev1.Container {
		return corev1.Container{
			Env: []corev1.EnvVar{
				{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local(name + "-env")}}},
				{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local(name + "-map-env")}}},
				{Name: "plain", Value: "x"},
			},
			EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local(name + "-from")}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local(name + "-map-from")}},
			},
		}
	}
	claim := "made"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "sa", ImagePullSecrets: []corev1.LocalObjectReference{local("pull")},
			InitContainers: []corev1.Container{container("init")}, Containers: []corev1.Container{container("main")},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(container("debug"))}},
		},
		Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{ResourceClaimName: &claim}, {}}},
	}
	for i, source := range []corev1.VolumeSource{
		{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}},
		{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("map-volume")}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: local("projected")}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("map-projected")}},
		}}},
		{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}},
		{Ephemeral: &corev1.EphemeralVolumeSource{}},
		{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "azure"}},
		{CephFS: &corev1.CephFSVolumeSource{SecretRef: pointer("cephfs")}},
		{Cinder: &corev1.CinderVolumeSource{SecretRef: pointer("cinder")}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: pointer("csi")}},
		{FlexVolume: &corev1.FlexVolumeSource{SecretRef: pointer("flex")}},
		{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: pointer("iscsi")}},
		{RBD: &corev1.RBDVolumeSource{SecretRef: pointer("rbd")}},
		{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: pointer("scaleio")}},
		{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: pointer("storageos")}},
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		{CephFS: &corev1.CephFSVolumeSource{}},
	} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v" + string(rune('0'+i)), VolumeSource: source})
	}
	return pod
}

// TestReferences: a node may read everything that its pods refer to, and nothing else.
func TestReferences(t *testing.T) {
	authorizer := node.New(node.Config{Pods: pods{everywhere()}})
	for resource, names := range map[string]string{
		"secrets":                "pull init-env init-from main-env main-from debug-env debug-from volume projected azure cephfs cinder csi flex iscsi rbd scaleio storageos",
		"configmaps":             "init-map-env init-map-from main-map-env main-map-from debug-map-env debug-map-from map-volume map-projected",
		"persistentvolumeclaims": "claim p-v4", "resource.k8s.io/resourceclaims": "made",
	} {
		want := authz.Attributes{Verb: "get", Resource: resource, Namespace: "ns"}
		if group, rest, ok := strings.Cut(resource, "/"); ok {
			want.Group, want.Resource = group, rest
		}
		may := func(who, namespace, name string) bool {
			want.Namespace, want.Name = namespace, name
			decision, _, err := authorizer.Authorize(t.Context(), agent(who), want)
			if err != nil {
				t.Fatal(err)
			}
			return decision == authz.Allow
		}
		for name := range strings.FieldsSeq(names) {
			if !may("n1", "ns", name) {
				t.Errorf("the pod's node may not read %s %s", resource, name)
			}
			if may("n2", "ns", name) || may("n1", "other", name) {
				t.Errorf("%s %s may be read by another node, or in another namespace", resource, name)
			}
		}
		for _, name := range []string{"unrelated", "plain", "sa"} {
			if may("n1", "ns", name) {
				t.Errorf("the node may read %s %s", resource, name)
			}
		}
	}
}

// TestNode checks the authorizer with a table of requests of node n1.
func TestNode(t *testing.T) {
	mirror := everywhere()
	mirror.Name, mirror.Namespace = "mirror", "static"
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	other := everywhere()
	other.Name, other.Spec.NodeName = "other", "n2"
	other.Spec.ImagePullSecrets[0].Name = "others"
	authorizer := node.New(node.Config{Pods: pods{everywhere(), mirror, other}, Rules: bootstraproles.NodeRules()})
	const unrelated = "no relationship found between node 'n1' and this object"
	for _, c := range []struct{ request, want string }{
		{"GET /api/v1/namespaces/ns/secrets/pull", "allowed"},
		{"GET /api/v1/namespaces/ns/secrets?fieldSelector=metadata.name=pull", "allowed"},
		{"GET /api/v1/namespaces/ns/secrets?watch=1&fieldSelector=metadata.name=pull", "allowed"},
		{"GET /api/v1/namespaces/ns/secrets/others", unrelated},
		{"GET /api/v1/namespaces/static/secrets/pull", unrelated}, // A mirror pod grants no rights.
		{"GET /api/v1/namespaces/ns/secrets", "No Object name found"},
		{"GET /api/v1/secrets", "can only read namespaced object of this type"},
		{"PUT /api/v1/namespaces/ns/secrets/pull", "can only read resources of this type"},
		{"POST /api/v1/namespaces/ns/configmaps", "can only read resources of this type"},
		{"GET /api/v1/namespaces/ns/configmaps/map-volume/status", "cannot read subresource"},

		{"GET /api/v1/namespaces/ns/persistentvolumeclaims/claim", "allowed"},
		{"GET /api/v1/namespaces/ns/persistentvolumeclaims?fieldSelector=metadata.name=claim", "can only get individual resources of this type"},
		{"PATCH /api/v1/namespaces/ns/persistentvolumeclaims/claim/status", "allowed"},
		{"PATCH /api/v1/namespaces/ns/persistentvolumeclaims/x/status", unrelated},
		{"GET /api/v1/namespaces/ns/persistentvolumeclaims/claim/status", "can only get/update/patch this type"},
		{"GET /api/v1/persistentvolumes/v", unrelated},

		{"POST /api/v1/namespaces/ns/serviceaccounts/sa/token", "allowed"},
		{"POST /api/v1/namespaces/ns/serviceaccounts/x/token", unrelated},
		{"POST /api/v1/namespaces/kube-system/serviceaccounts/node-network/token", "allowed"},
		{"POST /api/v1/namespaces/ns/serviceaccounts/node-network/token", unrelated},
		{"GET /api/v1/namespaces/kube-system/serviceaccounts/node-network", unrelated},
		{"GET /api/v1/namespaces/ns/serviceaccounts/sa", "allowed"},
		{"PUT /api/v1/namespaces/ns/serviceaccounts/sa", "can only create tokens for individual service accounts"},
		{"POST /api/v1/namespaces/ns/serviceaccounts/sa/other", "can only create token subresource of serviceaccount"},

		{"GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1", "allowed"},
		{"PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1", "allowed"},
		{"POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", "allowed"},
		{"PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2", "can only access node lease with the same name as the requesting node"},
		{"PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/n1", `can only access leases in the "kube-node-lease" system namespace`},
		{"GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", "can only get, create, update, patch, or delete a node lease"},

		{"GET /api/v1/nodes/n1", "allowed"},
		{"GET /api/v1/nodes?fieldSelector=metadata.name=n1", "allowed"},
		{"GET /api/v1/nodes/n2", "node 'n1' cannot read 'n2', only its own Node object"},
		{"GET /api/v1/nodes", "node 'n1' cannot read all nodes, only its own Node object"},
		{"POST /api/v1/nodes", "allowed"},
		{"PATCH /api/v1/nodes/n1/status", "allowed"},
		{"DELETE /api/v1/nodes/n1", ""},

		{"GET /api/v1/pods?fieldSelector=spec.nodeName=n1", "allowed"},
		{"GET /api/v1/pods?watch=1&fieldSelector=spec.nodeName=n1,status.phase=Running", "allowed"},
		{"GET /api/v1/pods?fieldSelector=spec.nodeName=n2", "can only list/watch pods with spec.nodeName field selector"},
		{"GET /api/v1/pods?fieldSelector=spec.nodeName!=n1", "can only list/watch pods with spec.nodeName field selector"},
		{"GET /api/v1/pods", "can only list/watch pods with spec.nodeName field selector"},
		{"GET /api/v1/namespaces/ns/pods?fieldSelector=metadata.name=p", "allowed"},
		{"GET /api/v1/namespaces/ns/pods/p", "allowed"},
		{"GET /api/v1/namespaces/ns/pods/other", unrelated},
		{"GET /api/v1/namespaces/ns/pods/gone", unrelated},
		{"DELETE /api/v1/namespaces/ns/pods/p", "allowed"},
		{"DELETE /api/v1/namespaces/ns/pods", ""},
		{"PATCH /api/v1/namespaces/ns/pods/p", ""},
		{"PUT /api/v1/namespaces/ns/pods/p/status", "allowed"},
		{"POST /api/v1/namespaces/ns/pods/p/eviction", "allowed"},
		{"POST /api/v1/namespaces/ns/pods/p/binding", ""},
		{"GET /api/v1/namespaces/ns/pods/p/log", ""},

		{"GET /api/v1/services", "allowed"},
		{"POST /api/v1/namespaces/ns/events", "allowed"},
		{"POST /apis/certificates.k8s.io/v1/certificatesigningrequests", "allowed"},
		{"GET /apis/apps/v1/namespaces/ns/deployments", ""},
		{"GET /apis/storage.k8s.io/v1/csinodes/n2", "can only access CSINode with the same name as the requesting node"},
		{"POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings", ""},
		{"GET /metrics", ""},
	} {
		method, url, _ := strings.Cut(c.request, " ")
		decision, reason, err := authorizer.Authorize(t.Context(), agent("n1"), authz.FromRequest(httptest.NewRequest(method, url, nil)))
		got := reason
		if decision == authz.Allow {
			got = "allowed"
		}
		if got != c.want || err != nil || decision == authz.Deny {
			t.Errorf("%s: got %v, %q, %v, want %q", c.request, decision, reason, err, c.want)
		}
	}
}

// TestIdentity: only a user with both the name and the group of a node is a node.
func TestIdentity(t *testing.T) {
	authorizer := node.New(node.Config{Pods: pods{everywhere()}, Rules: bootstraproles.NodeRules()})
	list := authz.Attributes{Verb: "list", Resource: "services"}
	for _, c := range []struct {
		user   authn.User
		want   authz.Decision
		reason string
	}{
		{agent("n1"), authz.Allow, ""},
		{agent(""), authz.NoOpinion, `unknown node for user "system:node:"`},
		{authn.User{Name: "system:node:n1"}, authz.NoOpinion, ""},
		{authn.User{Name: "n1", Groups: []string{authn.GroupNodes}}, authz.NoOpinion, ""},
	} {
		decision, reason, err := authorizer.Authorize(t.Context(), c.user, list)
		if decision != c.want || reason != c.reason || err != nil {
			t.Errorf("%+v: got %v, %q, %v, want %v, %q", c.user, decision, reason, err, c.want, c.reason)
		}
	}
	if _, _, incomplete, err := authorizer.Rules(t.Context(), agent("n1"), "ns"); !incomplete || err == nil {
		t.Error("a node's rules were listed")
	}
	if _, _, incomplete, err := authorizer.Rules(t.Context(), authn.User{Name: "u"}, "ns"); incomplete || err != nil {
		t.Errorf("rules of another user: incomplete %v, %v", incomplete, err)
	}
}

// TestCatchUp: no request is refused for want of a pod that the watch cache does not have yet.
func TestCatchUp(t *testing.T) {
	var late pods
	waited := 0
	authorizer := node.New(node.Config{Pods: &late, CatchUp: func(context.Context) error {
		waited++
		late = pods{everywhere()}
		return nil
	}})
	ask := func(resource, name string) authz.Decision {
		decision, _, err := authorizer.Authorize(t.Context(), agent("n1"), authz.Attributes{Verb: "get", Resource: resource, Namespace: "ns", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return decision
	}
	if ask("secrets", "pull") != authz.Allow || waited != 1 {
		t.Errorf("a readable secret: refused, or waited %d times, want 1", waited)
	}
	if ask("secrets", "pull") != authz.Allow || waited != 1 {
		t.Errorf("a readable secret once more: refused, or waited %d times in all, want 1", waited)
	}
	if ask("deployments", "x") != authz.NoOpinion || waited != 1 {
		t.Errorf("waited %d times for a resource that no pod allows, want 1", waited)
	}
	if ask("secrets", "other") != authz.NoOpinion || waited != 2 {
		t.Errorf("an unrelated secret: allowed, or waited %d times in all, want 2", waited)
	}
}
