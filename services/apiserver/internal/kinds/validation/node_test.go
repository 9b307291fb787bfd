package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestNodeFields(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		change(n)
		return n
	}
	errortest.Exactly(t, Node(node(func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.0.0/24", "fd00::/64"} })))
	errortest.Exactly(t, Node(node(func(n *corev1.Node) {
		n.Spec.PodCIDRs = []string{"10.0.0.0/24", "10.0.0.0/24"}
		n.Status.Capacity = corev1.ResourceList{"pods": resource.MustParse("1500m"), "cpu": resource.MustParse("-1")}
	})),
		`status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`,
		`status.capacity.pods: Invalid value: "1500m": must be an integer`,
		`spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.0.0/24"]: may specify no more than one CIDR for each IP family`,
		`spec.podCIDRs[1]: Duplicate value: "10.0.0.0/24"`,
	)
	old := node(func(n *corev1.Node) { n.Spec.DoNotUseExternalID = "a" })
	good := &corev1.ConfigMapNodeConfigSource{Namespace: "kube-system", Name: "c", KubeletConfigKey: "kubelet"}
	exact := good.DeepCopy()
	exact.UID, exact.ResourceVersion = "1", "2"
	errortest.Exactly(t, NodeUpdate(node(func(n *corev1.Node) {
		n.Spec.DoNotUseExternalID, n.Spec.ConfigSource = "a", &corev1.NodeConfigSource{ConfigMap: good} //nolint:staticcheck // Validation checks it.
		n.Status.Config = &corev1.NodeConfigStatus{Active: &corev1.NodeConfigSource{ConfigMap: exact}}
	}), old))
	errortest.Exactly(t, NodeUpdate(node(func(n *corev1.Node) {
		n.Spec.DoNotUseExternalID, n.Spec.ConfigSource = "b", &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{UID: "1", Namespace: "kube-system", Name: "c"}} //nolint:staticcheck // It is checked.
		n.Status.Config = &corev1.NodeConfigStatus{Active: &corev1.NodeConfigSource{ConfigMap: good}, Assigned: &corev1.NodeConfigSource{}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: "InternalIP", Address: "1.2.3.4"}, {Type: "InternalIP", Address: "1.2.3.4"}}
	}), old),
		`status.addresses[1]: Duplicate value: {"type":"InternalIP","address":"1.2.3.4"}`,
		"spec.configSource.configMap.uid: Forbidden: uid must not be set in spec",
		"spec.configSource.configMap.kubeletConfigKey: Required value: kubeletConfigKey must be set",
		"status.config.assigned: Invalid value: {}: exactly one reference subfield must be non-nil",
		"status.config.active.configMap.uid: Required value: uid must be set in status",
		"status.config.active.configMap.resourceVersion: Required value: resourceVersion must be set in status",
		"spec.externalID: Forbidden: may not be updated",
	)
}

func TestNamespaceFinalizers(t *testing.T) {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes", "mine"}}}
	const wrong = `Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified`
	errortest.Exactly(t, Namespace(n), "spec.finalizers: "+wrong)
	errortest.Exactly(t, NamespaceFinalize(n, nil), "spec.finalizers[1]: "+wrong)
	n.Spec.Finalizers[1] = "example.com/mine"
	errortest.Exactly(t, NamespaceFinalize(n, nil))
}
