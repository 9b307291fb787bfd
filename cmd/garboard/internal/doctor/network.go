package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/nodeapi"
)

// networkPage is where the network parts of nodes are described.
const networkPage = "docs/operate/network.md"

// maxOverlaps bounds the overlapping ranges that are told.
const maxOverlaps = 100

// Network are the facts about the network of pods.
type Network struct {
	// DNS is the Service of the DNS servers; nil if there is none.
	DNS *corev1.Service
	// Ranges are the ranges of Services.
	Ranges []netip.Prefix
	// Err is why something of this is not known.
	Err error
}

func (n *Network) gather(ctx context.Context, api client.Interface) {
	n.DNS, n.Err = client.Of[*corev1.Service](api).Get(ctx, nodeapi.DNSServiceNamespace, nodeapi.DNSService, metav1.GetOptions{})
	if apierrors.IsNotFound(n.Err) {
		n.DNS, n.Err = nil, nil
	}
	if n.Err != nil {
		return
	}
	ranges, _, err := client.Of[*networkingv1.ServiceCIDR](api).List(ctx, "", metav1.ListOptions{})
	n.Err = err
	for _, one := range ranges {
		n.Ranges = append(n.Ranges, prefixes(one.Spec.CIDRs)...)
	}
}

// prefixes returns those of some texts that are CIDRs.
func prefixes(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix.Masked())
		}
	}
	return all
}

// checkNetwork reports what keeps pods from reaching each other, Services and names.
func checkNetwork(l list, f *Facts) {
	n := &f.Network
	if n.Err != nil {
		l.add(Warn, "all", n.Err.Error(), "Use a kubeconfig that may get services in kube-system, and list servicecidrs.")
		return
	}
	checkDNS(l, n.DNS)
	if f.NodesErr == nil {
		checkConditions(l, f)
		checkPodRanges(l, f)
	}
}

func checkDNS(l list, service *corev1.Service) {
	switch {
	case service == nil:
		l.add(Warn, "DNS", "there is no Service "+nodeapi.DNSServiceNamespace+"/"+nodeapi.DNSService,
			"Start the apiservers with --dns-service, or name your own DNS servers with --cluster-dns of the node agents: "+networkPage+".")
	case service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone:
		l.add(Warn, "DNS", "the Service "+nodeapi.DNSServiceNamespace+"/"+nodeapi.DNSService+" has no address",
			"Delete it: the apiservers create it again, at the tenth address of the range of Services.")
	default:
		l.ok("DNS", "the Service %s/%s has the address %s", nodeapi.DNSServiceNamespace, nodeapi.DNSService, service.Spec.ClusterIP)
	}
}

// checkConditions reports the nodes that say that something is wrong with their network.
func checkConditions(l list, f *Facts) {
	for _, wrong := range []struct {
		kind   corev1.NodeConditionType
		status corev1.ConditionStatus
		advice string
	}{
		{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, networkAdvice},
		{nodeapi.PeersReachable, corev1.ConditionFalse, "Let TCP port 10256, and UDP port 4789 for VXLAN, through between the nodes: " + networkPage + "."},
		{nodeapi.NetworkPartsReady, corev1.ConditionFalse, "See the log of the node's agent: " + networkPage + "."},
	} {
		var names []string
		says := ""
		for _, node := range f.Nodes {
			for _, c := range node.Status.Conditions {
				if c.Type == wrong.kind && c.Status == wrong.status {
					names, says = append(names, node.Name), c.Message
				}
			}
		}
		if len(names) > 0 {
			l.add(Warn, string(wrong.kind), some(names)+": "+says, wrong.advice)
		}
	}
}

// checkPodRanges judges the ranges of nodes.
func checkPodRanges(l list, f *Facts) {
	var without, overlaps []string
	given := 0
	for _, node := range f.Nodes {
		texts := node.Spec.PodCIDRs
		if len(texts) == 0 && node.Spec.PodCIDR != "" {
			texts = []string{node.Spec.PodCIDR}
		}
		if len(texts) == 0 {
			without = append(without, node.Name)
			continue
		}
		given++
		for _, own := range prefixes(texts) {
			i := slices.IndexFunc(f.Network.Ranges, own.Overlaps)
			if i >= 0 && len(overlaps) < maxOverlaps {
				overlaps = append(overlaps, fmt.Sprintf("%s of %s and %s", own, node.Name, f.Network.Ranges[i]))
			}
		}
	}
	if len(without) > 0 {
		l.add(Warn, "pod ranges", "nodes without spec.podCIDR: "+some(without),
			"Start the controllers with --allocate-node-cidrs and --cluster-cidr, or see the Events CIDRNotAvailable of the nodes; "+
				"a network of your own may need none: "+networkPage+".")
	} else if given > 0 {
		l.ok("pod ranges", "all %d nodes have one", given)
	}
	if len(overlaps) > 0 {
		l.add(Fail, "ranges", "ranges of pods and of Services overlap: "+some(overlaps),
			"Choose a --cluster-cidr beside --service-cluster-ip-range, give the controllers both, and create the nodes anew.")
	}
}

// lacksNetwork reports whether a node is not ready because its container runtime has no network.
func lacksNetwork(condition *corev1.NodeCondition) bool {
	return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, "network not ready")
}

// networkAdvice is what to do about a node that lacksNetwork.
const networkAdvice = "See the Events of the node and its agent's log for the pod network, and whether the node has a pod CIDR and the CNI plugins: " + networkPage + "."
