package doctor

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/nodeapi"
)

// TestNetwork breaks one thing of the network at a time.
func TestNetwork(t *testing.T) {
	of := func(f *Facts, ranges ...string) { f.Nodes[0].Spec = corev1.NodeSpec{PodCIDRs: ranges} }
	says := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*Facts) {
		return func(f *Facts) {
			f.Nodes[0].Status.Conditions = append(f.Nodes[0].Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Message: "why"})
		}
	}
	for _, tc := range []struct {
		name               string
		facts              func(*Facts)
		what, says, advice string
	}{
		{"well", func(*Facts) {}, "", "", ""},
		{"two families", func(f *Facts) { of(f, "10.244.0.0/24", "fd00:244::/64") }, "", "", ""},
		{"the older field", func(f *Facts) { f.Nodes[0].Spec = corev1.NodeSpec{PodCIDR: "10.244.0.0/24"} }, "", "", ""},
		{"a range that is none", func(f *Facts) { of(f, "x") }, "", "", ""},
		{"no Service", func(f *Facts) { f.Network.DNS = nil }, "DNS", "no Service kube-system/kube-dns", "--dns-service"},
		{"no address", func(f *Facts) { f.Network.DNS.Spec.ClusterIP = "" }, "DNS", "has no address", "tenth address"},
		{"headless", func(f *Facts) { f.Network.DNS.Spec.ClusterIP = corev1.ClusterIPNone }, "DNS", "has no address", "Delete it"},
		{"no range", func(f *Facts) { of(f) }, "pod ranges", "without spec.podCIDR: node", "--allocate-node-cidrs"},
		{"no network", says(corev1.NodeNetworkUnavailable, "True"), "NetworkUnavailable", "node: why", "pod CIDR"},
		{"another network", says(corev1.NodeNetworkUnavailable, "False"), "", "", ""},
		{"no peers", says(nodeapi.PeersReachable, "False"), nodeapi.PeersReachable, "node: why", "10256"},
		{"a part", says(nodeapi.NetworkPartsReady, "False"), nodeapi.NetworkPartsReady, "node: why", "agent"},
		{"all parts", says(nodeapi.NetworkPartsReady, "True"), "", "", ""},
		{"no right", func(f *Facts) { f.Network = Network{Err: errors.New("forbidden")} }, "all", "forbidden", "servicecidrs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := healthy()
			tc.facts(f)
			wantWarning(t, f, "Network", tc.what, tc.says, tc.advice)
		})
	}
}

// TestOverlappingRanges: a node's range within that of Services is a failure, and the list of them is bounded.
func TestOverlappingRanges(t *testing.T) {
	f := healthy()
	f.Network.Ranges = append(f.Network.Ranges, netip.MustParsePrefix("10.244.0.128/25"))
	for range 10 {
		f.Nodes = append(f.Nodes, f.Nodes[0])
	}
	found := Check(f)
	last := Finding{}
	for _, one := range found {
		if one.Level != OK {
			last = one
		}
	}
	if last.Group != "Network" || last.Name != "ranges" || last.Level != Fail || found.ExitCode() != 2 ||
		!strings.Contains(last.Says, "10.244.0.0/24 of node and 10.244.0.128/25") || !strings.Contains(last.Says, "and 6 more") ||
		!strings.Contains(last.Advice, "--cluster-cidr") {
		t.Errorf("found %+v", last)
	}
}

// TestNodeWithoutNetwork: a node that is not ready because of its network has advice of its own.
func TestNodeWithoutNetwork(t *testing.T) {
	f := healthy()
	f.Nodes[0].Status.Conditions[0] = corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
		Message: "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized",
	}
	for _, one := range Check(f) {
		if one.Level != OK && (one.Group != "Nodes" || one.Advice != networkAdvice) {
			t.Errorf("found %+v", one)
		}
	}
	if !lacksNetwork(&f.Nodes[0].Status.Conditions[0]) {
		t.Error("it is not told that the node lacks its network")
	}
}

// TestGatherNetwork: the Service and the ranges are read; what is missing is no error, what is forbidden is one.
func TestGatherNetwork(t *testing.T) {
	const dns, ranges = "/api/v1/namespaces/kube-system/services/kube-dns", "/apis/networking.k8s.io/v1/servicecidrs"
	f := Gather(t.Context(), newAPI(t).config(), "v1")
	if n := f.Network; n.Err != nil || n.DNS == nil || n.DNS.Spec.ClusterIP != "10.96.0.10" || len(n.Ranges) != 2 {
		t.Errorf("the network is %+v", n)
	}
	a := newAPI(t)
	a.codes[dns] = http.StatusNotFound
	if n := Gather(t.Context(), a.config(), "v1").Network; n.Err != nil || n.DNS != nil {
		t.Errorf("without a Service the network is %+v", n)
	}
	for _, path := range []string{dns, ranges} {
		a := newAPI(t)
		a.codes[path] = http.StatusForbidden
		if n := Gather(t.Context(), a.config(), "v1").Network; !apierrors.IsForbidden(n.Err) {
			t.Errorf("without %s the error is %v", path, n.Err)
		}
	}
	if own := prefixes([]string{"10.0.0.1/24", "x", ""}); len(own) != 1 || own[0].String() != "10.0.0.0/24" {
		t.Errorf("the prefixes are %v", own)
	}
}
