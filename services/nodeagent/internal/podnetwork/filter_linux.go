package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/garboard/garboard/services/nodeagent/internal/nft"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

const (
	// filterTable is the name of the tables that hold the rules, one of each IP family, and filterChain that of the
	// chain with the rules.
	filterTable = "garboard-pods"
	filterChain = "postrouting"
	// sourceNAT is the priority at which the kernel's own tools change sources.
	sourceNAT = 100
)

// families are the IP families that pods may have addresses of.
func families() []ruleset.Family { return []ruleset.Family{ruleset.IPv4, ruleset.IPv6} }

// filter masquerades what pods send out of the plane, and lets packets for pods through. It reports whether it wrote
// anything.
func filter(ctx context.Context, plan *Plan) (changed bool, err error) {
	conn, err := nft.Open()
	if err != nil {
		return false, fmt.Errorf("masquerading pods: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, family := range families() {
		own, all := ofFamily(plan.CIDRs, family), ofFamily(plan.Pods(), family)
		wrote, err := masquerade(conn, family, own, all)
		changed = changed || wrote
		if err != nil {
			return changed, fmt.Errorf("writing the rules that masquerade pods: %w", err)
		}
		if len(own) == 0 && !wrote {
			continue // A machine without IPv6 has nothing to remove.
		}
		forwarded, err := forward(ctx, family, own, all)
		changed = changed || forwarded
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// masquerade brings the table of a family to its state, and reports whether it had another one.
func masquerade(conn *nft.Conn, family ruleset.Family, own, all []netip.Prefix) (changed bool, err error) {
	actual, err := conn.Read(family, filterTable)
	switch {
	case err != nil && len(own) == 0:
		return false, nil // The kernel has nothing of this family.
	case err != nil:
		return false, err
	case len(own) == 0 && !actual.Exists:
		return false, nil
	case len(own) == 0:
		return true, conn.DeleteTable(family, filterTable)
	}
	want := table(family, own, all)
	if present(actual, want) {
		return false, nil
	}
	return true, conn.Apply(family, filterTable, want)
}

// ofFamily returns the prefixes of one IP family, as few as describe the same addresses. Since nodes have
// neighbouring CIDRs, they are much fewer than the nodes.
func ofFamily(prefixes []netip.Prefix, family ruleset.Family) []netip.Prefix {
	var merged []netip.Prefix
	for _, prefix := range slices.SortedFunc(slices.Values(prefixes), netip.Prefix.Compare) {
		if !family.Is(prefix.Addr()) {
			continue
		}
		for len(merged) > 0 {
			last := merged[len(merged)-1]
			parent := netip.PrefixFrom(last.Addr(), last.Bits()-1).Masked()
			if last.Bits() != prefix.Bits() || parent.Addr() != last.Addr() || !parent.Contains(prefix.Addr()) {
				break
			}
			merged, prefix = merged[:len(merged)-1], parent
		}
		merged = append(merged, prefix)
	}
	return merged
}

// table returns the change that writes a whole table anew.
func table(family ruleset.Family, own, all []netip.Prefix) *ruleset.Change {
	many := netip.MustParsePrefix("224.0.0.0/4")
	if family == ruleset.IPv6 {
		many = netip.MustParsePrefix("ff00::/8")
	}
	chain := ruleset.Chain{
		Name: filterChain, Base: &ruleset.Base{Type: "nat", Hook: ruleset.Postrouting, Priority: sourceNAT}, Comment: "out of the plane",
	}
	for _, prefix := range own {
		chain.Rules = append(chain.Rules, ruleset.Rule{
			ruleset.Within{Prefix: prefix, Source: true}, ruleset.Within{Prefix: many, Not: true},
			ruleset.Member{Set: ruleset.PodRanges, Kind: ruleset.Ranges, Not: true}, ruleset.Masquerade{},
		})
	}
	change := &ruleset.Change{
		Rebuild: true, Sets: []ruleset.Set{{Name: ruleset.PodRanges, Kind: ruleset.Ranges}}, Chains: []ruleset.Chain{chain.Sealed(family)},
	}
	for _, key := range ends(all) {
		change.Element(ruleset.Slot{Set: ruleset.PodRanges, Key: key}, ruleset.Delta{Has: true})
	}
	return change
}

// ends returns the keys of a set of ranges that has the addresses of some prefixes, which are in order and do not
// overlap.
func ends(prefixes []netip.Prefix) []ruleset.Key {
	var keys []ruleset.Key
	for _, prefix := range prefixes {
		if last := len(keys) - 1; last >= 0 && keys[last].Addr == prefix.Addr() {
			keys = keys[:last] // It goes on.
		} else {
			keys = append(keys, ruleset.Key{Addr: prefix.Addr()})
		}
		keys = append(keys, ruleset.Key{Addr: after(prefix), Index: 1})
	}
	return keys
}

// after returns the address after the last one of a prefix.
func after(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last.Next()
}

// present reports whether a table has exactly what a change writes.
func present(actual *ruleset.Actual, want *ruleset.Change) bool {
	wanted := map[ruleset.Slot]ruleset.Value{}
	for slot := range want.Elements {
		wanted[slot] = ruleset.Value{}
	}
	chain := &want.Chains[0]
	return len(actual.Chains) == 1 && chain.Intact(actual.Chains[chain.Name]) &&
		len(actual.Sets) == 1 && actual.Sets[ruleset.PodRanges] == want.Sets[0] && maps.Equal(actual.Elements, wanted)
}

// unfilter removes all rules.
func unfilter(ctx context.Context) error {
	var faults []error
	for _, family := range families() {
		_, err := forward(ctx, family, nil, nil)
		faults = append(faults, err)
	}
	conn, err := nft.Open()
	if err != nil {
		return errors.Join(append(faults, fmt.Errorf("removing the rules that masquerade pods: %w", err))...)
	}
	for _, family := range families() {
		_, err := masquerade(conn, family, nil, nil)
		faults = append(faults, err)
	}
	return errors.Join(append(faults, conn.Close())...)
}
