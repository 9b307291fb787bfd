package nodeipam

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		fault   string
	}{
		"off":                   {Options{ClusterCIDRs: []string{"x"}}, ""},
		"one":                   {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16"}}, ""},
		"both":                  {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16", "fd00::/48"}, ServiceCIDRs: []string{"10.1.0.0/16", "fd01::/108"}}, ""},
		"all of it":             {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/24"}}, ""},
		"none":                  {Options{Allocate: true}, "--cluster-cidr must be set"},
		"no CIDR":               {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0"}}, `--cluster-cidr: parsing the CIDR "10.0.0.0"`},
		"no CIDR of Services":   {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16"}, ServiceCIDRs: []string{"x"}}, "--service-cluster-ip-range"},
		"two of a family":       {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16", "10.1.0.0/16"}}, "at most one of each IP family"},
		"three":                 {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16", "fd00::/48", "fd01::/48"}}, "at most one of each IP family"},
		"too narrow":            {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/25"}}, "must be from 25 to 32"},
		"too many bits":         {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16"}, MaskSize: 33}, "must be from 16 to 32"},
		"negative":              {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16"}, MaskSize: -1}, "must be from 16 to 32"},
		"too wide":              {Options{Allocate: true, ClusterCIDRs: []string{"0.0.0.0/0"}}, "at least 8 bits"},
		"too many of IPv6":      {Options{Allocate: true, ClusterCIDRs: []string{"fd00::/32"}}, "must be at most 48"},
		"one size for both":     {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16", "fd00::/48"}, MaskSize: 24}, "--node-cidr-mask-size must not be set with two"},
		"two sizes for one":     {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16"}, MaskSize: 24, MaskSizeIPv4: 24}, "must not be set together"},
		"IPv4's for IPv6 alone": {Options{Allocate: true, ClusterCIDRs: []string{"fd00::/48"}, MaskSizeIPv4: 24}, "--node-cidr-mask-size-ipv4 must not"},
		"IPv6's for IPv4 alone": {Options{Allocate: true, ClusterCIDRs: []string{"10.0.0.0/16"}, MaskSizeIPv6: 64}, "--node-cidr-mask-size-ipv6 must not"},
	} {
		err := test.options.Check()
		if test.fault == "" && err != nil || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%s: got %v, want %q", name, err, test.fault)
		}
	}
}

// TestPool compares a pool with a map of what is taken.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := netip.MustParsePrefix(rapid.SampledFrom([]string{"10.0.0.0/20", "10.0.16.0/21", "fd00::/56", "fd00::/60", "fd00::/118"}).Draw(t, "cluster"))
		p := newPool(spec{cluster, cluster.Bits() + rapid.IntRange(0, 8).Draw(t, "bits")})
		taken := map[netip.Prefix]bool{}
		for range rapid.IntRange(0, 600).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				i := rapid.IntRange(0, p.size-1).Draw(t, "index")
				if p.index(p.at(i).Addr()) != i || !cluster.Overlaps(p.at(i)) {
					t.Fatalf("range %d is %s", i, p.at(i))
				}
				if err := p.free(p.at(i)); err != nil {
					t.Fatal(err)
				}
				delete(taken, p.at(i))
			case 1:
				prefix := p.at(rapid.IntRange(0, p.size-1).Draw(t, "index"))
				if err := p.occupy(prefix); err != nil {
					t.Fatal(err)
				}
				taken[prefix] = true
			default:
				prefix, _, err := p.take()
				if full := len(taken) == p.size; full != (err != nil) {
					t.Fatalf("with %d of %d taken: %v", len(taken), p.size, err)
				} else if full {
					continue
				}
				if taken[prefix] {
					t.Fatalf("%s is given twice", prefix)
				}
				taken[prefix] = true
			}
			if p.used != len(taken) {
				t.Fatalf("got %d taken, want %d", p.used, len(taken))
			}
		}
	})
}
