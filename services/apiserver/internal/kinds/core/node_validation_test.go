package core

import (
	"strings"
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
	errortest.Exactly(t, validateNode(node(func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.0.0/24", "fd00::/64"} })))
	errortest.Exactly(t, validateNode(node(func(n *corev1.Node) {
		n.Spec.PodCIDRs = []string{"10.0.0.0/24", "10.0.0.0/24"}
		n.Status.Capacity = corev1.ResourceList{"pods": resource.MustParse("1500m"), "cpu": resource.MustParse("-1")}
	})),
		`status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`,
		`status.capacity.pods: Invalid value: "1500m": must be an integer`,
		`spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.0.0/24"]: may specify no more than one CIDR for each IP family`,
	)
	capacity := func(bytes int64) *corev1.Node {
		return node(func(n *corev1.Node) { n.Status.NodeInfo.Swap = &corev1.NodeSwapStatus{Capacity: &bytes} })
	}
	errortest.Exactly(t, validateNode(capacity(1)))
	errortest.Exactly(t, validateNode(capacity(0)), "metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero")
	errortest.Exactly(t, validateNodeUpdate(capacity(0), capacity(1)))
	errortest.Exactly(t, validateNode(node(func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"FD00::/64"} })))
	declaring := func(features ...string) *corev1.Node {
		return node(func(n *corev1.Node) { n.Status.DeclaredFeatures = features })
	}
	errortest.Exactly(t, validateNode(declaring("A", "A/b", "Bc")))
	errortest.Exactly(t, validateNodeUpdate(declaring("B", "B", "A", "a", strings.Repeat("X", 254)), declaring()),
		`status.declaredFeatures[1]: Duplicate value: "B"`,
		`status.declaredFeatures[2]: Invalid value: "A": list must be sorted alphabetically`,
		`status.declaredFeatures[3]: Invalid value: "a": invalid feature name "a": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes`,
		`status.declaredFeatures[4]: Invalid value: "`+strings.Repeat("X", 254)+`": invalid feature name "`+strings.Repeat("X", 254)+`": must be no more than 253 characters`,
		`status.declaredFeatures[4]: Invalid value: "`+strings.Repeat("X", 254)+`": list must be sorted alphabetically`,
	)
	old := node(func(n *corev1.Node) { n.Spec.DoNotUseExternalID = "a" })
	good := &corev1.ConfigMapNodeConfigSource{Namespace: "kube-system", Name: "c", KubeletConfigKey: "kubelet"}
	exact := good.DeepCopy()
	exact.UID, exact.ResourceVersion = "1", "2"
	errortest.Exactly(t, validateNodeUpdate(node(func(n *corev1.Node) {
		n.Spec.DoNotUseExternalID, n.Spec.ConfigSource = "a", &corev1.NodeConfigSource{ConfigMap: good} //nolint:staticcheck // Validation checks it.
		n.Status.Config = &corev1.NodeConfigStatus{Active: &corev1.NodeConfigSource{ConfigMap: exact}}
	}), old))
	errortest.Exactly(t, validateNodeUpdate(node(func(n *corev1.Node) {
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

func TestNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{
		PodCIDRs: []string{"10.0.0.0/24"}, ProviderID: "a",
		Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Effect: "NoSchedule"}, {Key: "", Effect: "Never"}},
	}}
	errortest.Contain(t, validateNode(n), "taints must be unique by key and effect pair", `metadata.taints[2].effect: Unsupported value: "Never"`, "metadata.taints[2].key: Invalid value")
	changed := n.DeepCopy()
	changed.Spec.PodCIDRs, changed.Spec.ProviderID = nil, "b"
	errortest.Contain(t, validateNodeUpdate(changed, n), "node updates may not change podCIDR except from \"\" to valid", "spec.providerID: Invalid value: null: field cannot be modified once set")
	changed.Spec.ProviderID = ""
	errortest.Contain(t, validateNodeUpdate(changed, n), "spec.providerID: Invalid value: null: field cannot be cleared once set")
}
