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
)

func protocols() []corev1.Protocol {
	return []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
}

// invalid returns an error for each message about a value.
func invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

// oneOf requires a value, and that it is one of allowed.
func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}

// ip checks an address, unless it is in old, whose addresses an update may keep.
func ip(path *field.Path, value string, old []string) field.ErrorList {
	return validation.IsValidIPForLegacyField(path, value, true, old)
}

func cidr(path *field.Path, value string, old []string) field.ErrorList {
	return validation.IsValidCIDRForLegacyField(path, value, true, old)
}

// ordinaryIP rejects addresses that do not identify another machine.
func ordinaryIP(path *field.Path, value string) field.ErrorList {
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

func portNumOrName(path *field.Path, port intstr.IntOrString) field.ErrorList {
	if port.Type == intstr.Int {
		return invalid(path, port.IntVal, validation.IsValidPortNum(int(port.IntVal)))
	}
	return invalid(path, port.StrVal, validation.IsValidPortName(port.StrVal))
}

func nodeName(path *field.Path, name *string) field.ErrorList {
	if name == nil {
		return nil
	}
	return invalid(path, *name, apivalidation.NameIsDNSSubdomain(*name, false))
}

// publicPoint checks the address or the name of a load balancer.
func publicPoint(path *field.Path, address, hostname string, old []string) field.ErrorList {
	var errs field.ErrorList
	if address != "" {
		errs = append(errs, ip(path.Child("ip"), address, old)...)
	}
	if hostname == "" {
		return errs
	}
	errs = append(errs, invalid(path.Child("hostname"), hostname, validation.IsDNS1123Subdomain(hostname))...)
	if netutils.ParseIPSloppy(hostname) != nil {
		errs = append(errs, field.Invalid(path.Child("hostname"), hostname, "must be a DNS name, not an IP address"))
	}
	return errs
}
