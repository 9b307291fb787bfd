package networking

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestAddresses(t *testing.T) {
	address := func(name string, ref *networkingv1.ParentReference) *networkingv1.IPAddress {
		return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Spec: networkingv1.IPAddressSpec{ParentRef: ref}}
	}
	ref := &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "s"}
	errortest.Exactly(t, validateIPAddress(address("10.0.0.1", ref)))
	errortest.Exactly(t, validateIPAddress(address("fd00::1", ref)))
	errortest.Exactly(t, validateIPAddress(address("x", nil)), `metadata.name: Invalid value: "x": `+badIP, "spec.parentRef: Required value")
	errortest.Exactly(t, validateIPAddress(address("FD00::1", ref)), `metadata.name: Invalid value: "FD00::1": must be in canonical form ("fd00::1")`)
	errortest.Exactly(t, validateIPAddress(address("10.0.0.1", &networkingv1.ParentReference{Group: "A", Namespace: "a/b"})),
		`spec.parentRef.group: Invalid value: "A": `+lower, "spec.parentRef.resource: Required value", "spec.parentRef.name: Required value", `spec.parentRef.namespace: Invalid value: "a/b": may not contain '/'`)
	other := *ref
	other.Name = "t"
	errortest.Contain(t, validateIPAddressUpdate(address("10.0.0.1", &other), address("10.0.0.1", ref)), "spec.parentRef: Invalid value", fixed)
	errortest.Exactly(t, validateIPAddressUpdate(address("10.0.0.1", ref.DeepCopy()), address("10.0.0.1", ref)))

	cidr := func(cidrs ...string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	}
	const path = "spec.cidrs"
	errortest.Exactly(t, validateServiceCIDR(cidr("10.0.0.0/24", "fd00::/64")))
	errortest.Exactly(t, validateServiceCIDR(cidr()), path+": Required value: at least one CIDR required")
	errortest.Exactly(t, validateServiceCIDR(cidr("10.0.0.0/24", "fd00::/64", "x")), path+`: Invalid value: {"cidrs":["10.0.0.0/24","fd00::/64","x"]}: may only hold up to 2 values`)
	errortest.Exactly(t, validateServiceCIDR(cidr("10.0.0.1/24", "FD00::/64")), path+`[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length`, path+`[1]: Invalid value: "FD00::/64": must be in canonical form ("fd00::/64")`)
	errortest.Exactly(t, validateServiceCIDR(cidr("10.0.0.0/24", "10.0.1.0/24")), path+`: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64`)
	errortest.Exactly(t, validateServiceCIDRUpdate(cidr("10.0.0.0/24"), cidr("10.0.0.0/24")))
	errortest.Exactly(t, validateServiceCIDRUpdate(cidr("10.0.1.0/24"), cidr("10.0.0.0/24")), path+`[0]: Invalid value: "10.0.1.0/24": `+fixed)
	errortest.Exactly(t, validateServiceCIDRUpdate(cidr("10.0.0.0/24", "fd00::/64"), cidr("10.0.0.0/24")))
	errortest.Exactly(t, validateServiceCIDRUpdate(cidr("10.0.1.0/24", "x"), cidr("10.0.0.0/24")), path+`[0]: Invalid value: "10.0.1.0/24": `+fixed, path+`[1]: Invalid value: "x": `+badCIDR)
	errortest.Exactly(t, validateServiceCIDRUpdate(cidr("10.0.0.0/24"), cidr("10.0.0.0/24", "fd00::/64")), path+`: Invalid value: ["10.0.0.0/24"]: `+fixed)
}
