package network

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// IPWarnings warns about an address that is not in canonical form. Validation rejects what is not
// an address at all.
func IPWarnings(path *field.Path, value string) []string {
	if netutils.ParseIPSloppy(value) == nil {
		return nil
	}
	return validation.GetWarningsForIP(path, value)
}

func CIDRWarnings(path *field.Path, value string) []string {
	if _, _, err := netutils.ParseCIDRSloppy(value); err != nil {
		return nil
	}
	return validation.GetWarningsForCIDR(path, value)
}
