package noderestriction

import (
	"testing"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func podOn(node, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// mirrorOf returns a mirror pod as the kubelet creates it.
func mirrorOf(node string, change ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	return podOn(node, "mirror", append([]func(*corev1.Pod){func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: "n1-uid", Controller: &yes}}
	}}, change...)...)
}

func nodeNamed(name string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}}
	for _, c := range change {
		c(node)
	}
	return node
}

func tokenFor(pod string, change ...func(*authenticationv1.TokenRequestSpec)) *authenticationv1.TokenRequest {
	asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(pod)},
	}}
	for _, c := range change {
		c(&asked.Spec)
	}
	return asked
}

// TestNodeRestriction checks what node n1 may write, and the words of the refusals.
func TestNodeRestriction(t *testing.T) {
	withToken := func(audience string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience}},
			}}}}}
		}
	}
	w := admissiontest.New(nodeNamed("n1"), podOn("n1", "mine", withToken("")), podOn("n1", "vault", withToken("vault")), podOn("n2", "other", withToken("")))
	w.Put(podOn("n1", "late"))
	w.Stale(podOn("", "late"))
	labels := func(keys ...string) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.Labels = map[string]string{}
			for _, key := range keys {
				node.Labels[key] = "x"
			}
		}
	}
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Volumes = []corev1.Volume{{VolumeSource: source}} }
	}
	audiences := func(of ...string) func(*authenticationv1.TokenRequestSpec) {
		return func(spec *authenticationv1.TokenRequestSpec) { spec.Audiences = of }
	}
	claim := func(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		for _, one := range change {
			one(c)
		}
		return c
	}
	pods, nodes := scheme.For[*corev1.Pod](w.Table), scheme.For[*corev1.Node](w.Table)
	accounts, leases := scheme.For[*corev1.ServiceAccount](w.Table), scheme.For[*coordinationv1.Lease](w.Table)
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	token := func(asked *authenticationv1.TokenRequest) admission.Request {
		return admission.Request{Verb: admission.Create, Kind: accounts, Namespace: "ns", Name: "sa", Subresource: "token", Object: asked}
	}
	network := func(set func(*authenticationv1.TokenRequestSpec)) admission.Request {
		asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1"},
		}}
		set(&asked.Spec)
		return admission.Request{Verb: admission.Create, Kind: accounts, Namespace: "kube-system", Name: "node-network", Subresource: "token", Object: asked}
	}
	create := func(pod *corev1.Pod) admission.Request {
		return admission.Request{Verb: admission.Create, Kind: pods, Namespace: "ns", Name: pod.Name, Object: pod}
	}
	status := func(old, pod *corev1.Pod) admission.Request {
		return admission.Request{Verb: admission.Update, Kind: pods, Namespace: "ns", Name: pod.Name, Subresource: "status", Object: pod, Old: old}
	}
	update := func(old, node *corev1.Node) admission.Request {
		return admission.Request{Verb: admission.Update, Kind: nodes, Name: node.Name, Object: node, Old: old}
	}
	for name, c := range map[string]struct {
		req  admission.Request
		want string
	}{
		"mirror pod": {create(mirrorOf("n1")), ""},
		"ordinary pod": {create(podOn("n1", "p")),
			`pods "p" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`},
		"mirror pod of another node": {create(mirrorOf("n2")), `node "n1" can only create pods with spec.nodeName set to itself`},
		"mirror pod without an owner": {create(mirrorOf("n1", func(p *corev1.Pod) { p.OwnerReferences = nil })),
			`node "n1" can only create pods with an owner reference set to itself`},
		"mirror pod with two owners": {create(mirrorOf("n1", func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences...) })),
			`node "n1" can only create pods with a single owner reference set to itself`},
		"mirror pod of another owner": {create(mirrorOf("n1", func(p *corev1.Pod) { p.OwnerReferences[0].Name = "n2" })),
			`node "n1" can only create pods with an owner reference set to itself`},
		"mirror pod without a controller": {create(mirrorOf("n1", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil })),
			`node "n1" can only create pods with a controller owner reference set to itself`},
		"mirror pod that blocks its node's deletion": {create(mirrorOf("n1", func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = p.OwnerReferences[0].Controller })),
			`node "n1" must not set blockOwnerDeletion on an owner reference`},
		"mirror pod of a former node": {create(mirrorOf("n1", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "old" })),
			`node n1 UID mismatch: expected old got n1-uid`},
		"mirror pod with an account": {create(mirrorOf("n1", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "sa" })),
			`node "n1" can not create pods that reference a service account`},
		"mirror pod with a secret": {create(mirrorOf("n1", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}))),
			`node "n1" can not create pods that reference secrets`},
		"mirror pod with a config map": {create(mirrorOf("n1", volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}))),
			`node "n1" can not create pods that reference configmaps`},
		"mirror pod with a claim": {create(mirrorOf("n1", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}))),
			`node "n1" can not create pods that reference persistentvolumeclaims`},
		"mirror pod with a trust bundle": {create(mirrorOf("n1", volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}}}}))),
			`node "n1" can not create pods that reference clustertrustbundles`},

		"deleting an own pod":           {admission.Request{Verb: admission.Delete, Kind: pods, Namespace: "ns", Name: "mine"}, ""},
		"deleting a pod bound just now": {admission.Request{Verb: admission.Delete, Kind: pods, Namespace: "ns", Name: "late"}, ""},
		"deleting another node's pod":   {admission.Request{Verb: admission.Delete, Kind: pods, Namespace: "ns", Name: "other"}, `node "n1" can only delete pods with spec.nodeName set to itself`},
		"deleting a missing pod":        {admission.Request{Verb: admission.Delete, Kind: pods, Namespace: "ns", Name: "gone"}, "not found"},
		"updating an own pod": {admission.Request{Verb: admission.Update, Kind: pods, Namespace: "ns", Name: "mine", Object: podOn("n1", "mine"), Old: podOn("n1", "mine")},
			`unexpected operation "UPDATE", node "n1" can only create and delete mirror pods`},
		"an own pod's status":  {status(podOn("n1", "mine"), podOn("n1", "mine")), ""},
		"another's pod status": {status(podOn("n2", "other"), podOn("n1", "other")), `node "n1" can only update pod status for pods with spec.nodeName set to itself`},
		"labels by status": {status(podOn("n1", "mine"), podOn("n1", "mine", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })),
			`node "n1" cannot update labels through pod status`},
		"claims by status": {status(podOn("n1", "mine"), podOn("n1", "mine", func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "x"}}
		})), `node "n1" cannot update resource claim statues`},
		"an own pod's binding": {admission.Request{Verb: admission.Create, Kind: pods, Namespace: "ns", Name: "mine", Subresource: "binding", Object: &corev1.Binding{}},
			`unexpected pod subresource "binding", only 'status' and 'eviction' are allowed`},
		"evicting an own pod":      {admission.Request{Verb: admission.Create, Kind: pods, Namespace: "ns", Name: "mine", Subresource: "eviction", Object: &policyv1.Eviction{}}, ""},
		"evicting another's pod":   {admission.Request{Verb: admission.Create, Kind: pods, Namespace: "ns", Name: "other", Subresource: "eviction", Object: &policyv1.Eviction{}}, `node n1 can only evict pods with spec.nodeName set to itself`},
		"evicting without a name":  {admission.Request{Verb: admission.Create, Kind: pods, Namespace: "ns", Subresource: "eviction", Object: &policyv1.Eviction{}}, "could not determine pod from request data"},
		"registering":              {admission.Request{Verb: admission.Create, Kind: nodes, Object: nodeNamed("n1", labels("kubernetes.io/hostname", "node.kubernetes.io/x", "a.node.kubernetes.io/y", "mine/z", "plain", "topology.kubernetes.io/zone"))}, ""},
		"registering with taints":  {admission.Request{Verb: admission.Create, Kind: nodes, Object: nodeNamed("n1", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} })}, ""},
		"registering another node": {admission.Request{Verb: admission.Create, Kind: nodes, Object: nodeNamed("n2")}, `nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`},
		"registering with foreign labels": {admission.Request{Verb: admission.Create, Kind: nodes, Object: nodeNamed("n1", labels("node-role.kubernetes.io/control-plane", "x.k8s.io/y", "node-restriction.kubernetes.io/z", "a.node-restriction.kubernetes.io/b"))},
			`node "n1" is not allowed to set the following labels: a.node-restriction.kubernetes.io/b, node-restriction.kubernetes.io/z, node-role.kubernetes.io/control-plane, x.k8s.io/y`},
		"registering with a config source": {admission.Request{Verb: admission.Create, Kind: nodes, Object: nodeNamed("n1", func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} })}, //nolint:staticcheck // Kubernetes still checks it.
			`node "n1" is not allowed to create pods with a non-nil configSource`},
		"creating itself with CIDRs": {admission.Request{Verb: admission.Create, Kind: nodes, Object: nodeNamed("n1", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"8.0.0.0/8"} })},
			`node "n1" is not allowed to set its pod CIDRs`},
		"choosing a CIDR": {update(nodeNamed("n1"), nodeNamed("n1", func(n *corev1.Node) { n.Spec.PodCIDR = "8.0.0.0/8" })), `node "n1" is not allowed to set its pod CIDRs`},
		"keeping its CIDRs": {update(nodeNamed("n1", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.244.0.0/24"} }),
			nodeNamed("n1", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.244.0.0/24"} })), ""},
		"deleting itself":          {admission.Request{Verb: admission.Delete, Kind: nodes, Name: "n1"}, ""},
		"deleting another node":    {admission.Request{Verb: admission.Delete, Kind: nodes, Name: "n2"}, `node "n1" is not allowed to modify node "n2"`},
		"setting an own label":     {update(nodeNamed("n1"), nodeNamed("n1", labels("mine/x"))), ""},
		"keeping foreign labels":   {update(nodeNamed("n1", labels("x.k8s.io/y")), nodeNamed("n1", labels("x.k8s.io/y", "mine/x"))), ""},
		"removing a foreign label": {update(nodeNamed("n1", labels("x.k8s.io/y")), nodeNamed("n1")), `is not allowed to modify labels: x.k8s.io/y`},
		"changing taints":          {update(nodeNamed("n1", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }), nodeNamed("n1")), `node "n1" is not allowed to modify taints`},
		"changing owners":          {update(nodeNamed("n1"), nodeNamed("n1", func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{}} })), `node "n1" is not allowed to modify ownerReferences`},
		"changing config source":   {update(nodeNamed("n1"), nodeNamed("n1", func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} })), `node "n1" is not allowed to update configSource to a new non-nil configSource`}, //nolint:staticcheck // Kubernetes still looks.

		"a token for an own pod":          {token(tokenFor("mine")), ""},
		"a token for a volume's audience": {token(tokenFor("vault", audiences("vault"))), ""},
		"a token for a granted audience":  {token(tokenFor("mine", audiences("granted"))), ""},
		"a token for another audience":    {token(tokenFor("mine", audiences("vault"))), `serviceaccounts "sa" is forbidden: audience "vault" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`},
		"a token for two audiences":       {token(tokenFor("mine", audiences("a", "b"))), "node may only request 0 or 1 audiences"},
		"a token without a volume":        {token(tokenFor("vault")), `audience "" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`},
		"a token for another's pod":       {token(tokenFor("other")), "node requested token bound to a pod scheduled on a different node"},
		"a token for a replaced pod":      {token(tokenFor("mine", func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef.UID = "old" })), "the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated"},
		"a token without a pod UID":       {token(tokenFor("mine", func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef.UID = "" })), "node requested token with a pod binding without a uid"},
		"a token for a secret":            {token(tokenFor("mine", func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef.Kind = "Secret" })), "node requested token not bound to a pod"},
		"an unbound token":                {token(tokenFor("mine", func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef = nil })), "node requested token not bound to a pod"},
		"a token for its network parts":   {network(func(*authenticationv1.TokenRequestSpec) {}), ""},
		"another node's network token":    {network(func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef.Name = "n2" }), "node requested token of its network parts that is not bound to the node"},
		"an unbound network token":        {network(func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef = nil }), "node requested token of its network parts that is not bound to the node"},
		"a network token for a secret":    {network(func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef.Kind = "Secret" }), "node requested token of its network parts that is not bound to the node"},
		"a network token for others":      {network(audiences("vault")), "node requested token of its network parts for other audiences than the API"},
		"creating its lease":              {admission.Request{Verb: admission.Create, Kind: leases, Namespace: "kube-node-lease", Object: lease("n1")}, ""},
		"renewing its lease":              {admission.Request{Verb: admission.Update, Kind: leases, Namespace: "kube-node-lease", Name: "n1", Object: lease("n1"), Old: lease("n1")}, ""},
		"another's lease":                 {admission.Request{Verb: admission.Create, Kind: leases, Namespace: "kube-node-lease", Object: lease("n2")}, "can only access node lease with the same name as the requesting node"},
		"a lease elsewhere":               {admission.Request{Verb: admission.Create, Kind: leases, Namespace: "ns", Object: lease("n1")}, `can only access leases in the "kube-node-lease" system namespace`},
		"a claim's size": {admission.Request{Verb: admission.Update, Kind: scheme.For[*corev1.PersistentVolumeClaim](w.Table), Namespace: "ns", Name: "c", Subresource: "status", Old: claim(), Object: claim(func(c *corev1.PersistentVolumeClaim) {
			c.Status.Capacity = corev1.ResourceList{"storage": resource.MustParse("1Gi")}
		})}, ""},
		"a claim's phase": {admission.Request{Verb: admission.Update, Kind: scheme.For[*corev1.PersistentVolumeClaim](w.Table), Namespace: "ns", Name: "c", Subresource: "status", Old: claim(), Object: claim(func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase = corev1.ClaimBound
		})}, `node "n1" is not allowed to update fields other than status.quantity and status.conditions`},
		"a claim itself": {admission.Request{Verb: admission.Update, Kind: scheme.For[*corev1.PersistentVolumeClaim](w.Table), Namespace: "ns", Name: "c", Old: claim(), Object: claim()}, "may only update PVC status"},
		"an event":       {admission.Request{Verb: admission.Create, Kind: scheme.For[*corev1.Event](w.Table), Namespace: "ns", Object: &corev1.Event{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			grants := &admissiontest.Authorizer{Allow: func(a authz.Attributes) bool {
				return a.Verb == "request-serviceaccounts-token-audience" && a.Resource == "granted" && a.Name == "sa" && a.Namespace == "ns"
			}}
			restrict := nodeRestriction(w.Objects(), grants)
			as := func(user authn.User) error {
				req := c.req
				return restrict(authn.WithUser(t.Context(), user), &req)
			}
			err := as(authn.User{Name: "system:node:n1", Groups: []string{authn.GroupNodes}})
			if c.want == "not found" {
				if !apierrors.IsNotFound(err) {
					t.Errorf("got %v, want not found", err)
				}
				return
			}
			admissiontest.Refused(t, err, c.want)
			if err := as(authn.User{Name: "alice"}); err != nil {
				t.Errorf("a user that is not a node: got %v", err)
			}
			if err := as(authn.User{Name: "system:node:", Groups: []string{authn.GroupNodes}}); err == nil {
				t.Error("a node without a name was allowed")
			}
		})
	}
}
