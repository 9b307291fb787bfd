package network

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func at() *field.Path { return field.NewPath("at") }

func TestOrdinaryIP(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1": "", "fd00::1": "", "223.255.255.255": "", "224.0.1.0": "", "169.253.255.255": "", "fec0::1": "",
		"":                "must be a valid IP address",
		"10.0.0.256":      "must be a valid IP address",
		"0.0.0.0":         "may not be unspecified (0.0.0.0)",
		"::":              "may not be unspecified (::)",
		"127.255.255.255": "may not be in the loopback range",
		"::1":             "may not be in the loopback range",
		"169.254.0.0":     "may not be in the link-local range",
		"febf::1":         "may not be in the link-local range",
		"224.0.0.255":     "may not be in the link-local multicast range",
		"ff02::1":         "may not be in the link-local multicast range",
	} {
		errs := OrdinaryIP(at(), address)
		if want == "" {
			errortest.Contain(t, errs)
			continue
		}
		errortest.Contain(t, errs, want)
	}
}

func TestPortNumOrName(t *testing.T) {
	for _, tc := range []struct {
		port intstr.IntOrString
		want []string
	}{
		{intstr.FromInt32(1), nil},
		{intstr.FromInt32(65535), nil},
		{intstr.FromInt32(0), []string{"at: Invalid value: 0: must be between 1 and 65535, inclusive"}},
		{intstr.FromInt32(65536), []string{"at: Invalid value: 65536: must be between 1 and 65535, inclusive"}},
		{intstr.FromString("http-2"), nil},
		{intstr.FromString("exactly-15-char"), nil},
		{intstr.FromString("more-than-15-chr"), []string{"must be no more than 15 characters"}},
		{intstr.FromString("80"), []string{"must contain at least one letter"}},
		{intstr.FromString("a--b"), []string{"must not contain consecutive hyphens"}},
		{intstr.FromString("-a"), []string{"must not begin or end with a hyphen"}},
	} {
		t.Run(tc.port.String(), func(t *testing.T) { errortest.Contain(t, PortNumOrName(at(), tc.port), tc.want...) })
	}
}

func TestPublicPoint(t *testing.T) {
	for _, tc := range []struct {
		name, address, hostname string
		old, want               []string
	}{
		{name: "neither"},
		{name: "both", address: "9.9.9.9", hostname: "lb.example.com"},
		{name: "no address", address: "nine", want: []string{`at.ip: Invalid value: "nine"`}},
		{name: "leading zeros", address: "09.9.9.9", want: []string{`at.ip: Invalid value: "09.9.9.9"`}},
		{name: "leading zeros as before", address: "09.9.9.9", old: []string{"09.9.9.9"}},
		{name: "no name", hostname: "LB", want: []string{`at.hostname: Invalid value: "LB"`}},
		{name: "an address as a name", hostname: "9.9.9.9", want: []string{`at.hostname: Invalid value: "9.9.9.9": must be a DNS name, not an IP address`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errortest.Contain(t, PublicPoint(at(), tc.address, tc.hostname, tc.old), tc.want...)
		})
	}
}

func TestNames(t *testing.T) {
	errortest.Contain(t, AppProtocol(at(), nil))
	errortest.Contain(t, AppProtocol(at(), new("example.com/Proto_2")))
	errortest.Contain(t, AppProtocol(at(), new("a b")), `at: Invalid value: "a b"`)
	errortest.Contain(t, NodeName(at(), nil))
	errortest.Contain(t, NodeName(at(), new("n1.example.com")))
	errortest.Contain(t, NodeName(at(), new("N1")), `at: Invalid value: "N1"`)
	errortest.Exactly(t, OneOf(at(), ""), "at: Required value")
	errortest.Exactly(t, OneOf(at(), "b", "a"), `at: Unsupported value: "b": supported values: "a"`)
	errortest.Exactly(t, OneOf(at(), "a", "a"))
}

func TestAddressesOfOldObjectsAreKept(t *testing.T) {
	errortest.Contain(t, Cidr(at(), "10.0.0.1/24", nil), `at: Invalid value: "10.0.0.1/24"`)
	errortest.Contain(t, Cidr(at(), "10.0.0.1/24", []string{"10.0.0.1/24"}))
	errortest.Contain(t, Ip(at(), "::ffff:1.2.3.4", nil), `at: Invalid value: "::ffff:1.2.3.4"`)
	errortest.Contain(t, Ip(at(), "::ffff:1.2.3.4", []string{"::ffff:1.2.3.4"}))
}

// TestWarnings checks that text that is no address gets no warning: validation rejects it.
func TestWarnings(t *testing.T) {
	for text, want := range map[string]int{"fd00::1": 0, "FD00::1": 1, "01.2.3.4": 1, "::ffff:1.2.3.4": 1, "x": 0, "": 0} {
		if got := IPWarnings(at(), text); len(got) != want {
			t.Errorf("%q: got warnings %q, want %d", text, got, want)
		}
	}
	for text, want := range map[string]int{"10.0.0.0/8": 0, "10.0.0.1/8": 1, "FD00::/64": 1, "10.0.0.0": 0, "x/8": 0} {
		if got := CIDRWarnings(at(), text); len(got) != want {
			t.Errorf("%q: got warnings %q, want %d", text, got, want)
		}
	}
}
