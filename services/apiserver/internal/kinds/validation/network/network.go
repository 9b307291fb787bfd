package network

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

func AppProtocol(path *field.Path, name *string) field.ErrorList {
	if name == nil {
		return nil
	}
	return values.Invalid(path, *name, validation.IsQualifiedName(*name))
}

const (
	// MaxAffinitySeconds bounds a session affinity: one day.
	MaxAffinitySeconds = 86400

	OnlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"
	Unchangeable     = "may not change once set"
)

func Protocols() []corev1.Protocol {
	return []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
}

// OneOf requires a value, and that it is one of allowed.
func OneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}

// Ip checks an address, unless it is in old, whose addresses an update may keep.
func Ip(path *field.Path, value string, old []string) field.ErrorList {
	return validation.IsValidIPForLegacyField(path, value, true, old)
}

func Cidr(path *field.Path, value string, old []string) field.ErrorList {
	return validation.IsValidCIDRForLegacyField(path, value, true, old)
}

// OrdinaryIP rejects addresses that do not identify another machine.
func OrdinaryIP(path *field.Path, value string) field.ErrorList {
	parsed := netutils.ParseIPSloppy(value)
	switch {
	case parsed == nil:
		return field.ErrorList{field.Invalid(path, value, "must be a valid IP address")}
	case parsed.IsUnspecified():
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("may not be unspecified (%v)", value))}
	case parsed.IsLoopback():
		return field.ErrorList{field.Invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")}
	case parsed.IsLinkLocalUnicast():
		return field.ErrorList{field.Invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")}
	case parsed.IsLinkLocalMulticast():
		return field.ErrorList{field.Invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")}
	}
	return nil
}

func PortNumOrName(path *field.Path, port intstr.IntOrString) field.ErrorList {
	if port.Type == intstr.Int {
		return values.Invalid(path, port.IntVal, validation.IsValidPortNum(int(port.IntVal)))
	}
	return values.Invalid(path, port.StrVal, validation.IsValidPortName(port.StrVal))
}

func NodeName(path *field.Path, name *string) field.ErrorList {
	if name == nil {
		return nil
	}
	return values.Invalid(path, *name, apivalidation.NameIsDNSSubdomain(*name, false))
}

// PublicPoint checks the address or the name of a load balancer.
func PublicPoint(path *field.Path, address, hostname string, old []string) field.ErrorList {
	var errs field.ErrorList
	if address != "" {
		errs = append(errs, Ip(path.Child("ip"), address, old)...)
	}
	if hostname == "" {
		return errs
	}
	errs = append(errs, values.Invalid(path.Child("hostname"), hostname, validation.IsDNS1123Subdomain(hostname))...)
	if netutils.ParseIPSloppy(hostname) != nil {
		errs = append(errs, field.Invalid(path.Child("hostname"), hostname, "must be a DNS name, not an IP address"))
	}
	return errs
}
