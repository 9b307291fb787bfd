package ledger

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// Ledger has the wanted state of one table. It is not safe for concurrent use.
type Ledger struct {
	sets   map[string]ruleset.Set
	chains map[string]ruleset.Chain
	// elements has what the claims and counts come to. The choices of chains are with the chains.
	elements map[ruleset.Slot]ruleset.Value
	claims   map[ruleset.Frontend][]claim
	counts   map[ruleset.Slot]int
	units    map[types.NamespacedName]*ruleset.Unit
	skeleton skeleton
}

// skeleton is the part that belongs to no Service.
type skeleton struct {
	sets     []ruleset.Set
	chains   []ruleset.Chain
	elements []ruleset.Element
}

// claim is a Service's claim to a frontend.
type claim struct {
	ruleset.Claim
	unit *ruleset.Unit
}

// New creates an empty ledger.
func New() *Ledger {
	return &Ledger{
		sets: make(map[string]ruleset.Set), chains: make(map[string]ruleset.Chain),
		elements: make(map[ruleset.Slot]ruleset.Value), claims: make(map[ruleset.Frontend][]claim),
		counts: make(map[ruleset.Slot]int), units: make(map[types.NamespacedName]*ruleset.Unit),
	}
}

// Unit returns the unit of a Service, or nil. It must not be changed.
func (l *Ledger) Unit(owner types.NamespacedName) *ruleset.Unit { return l.units[owner] }

// Owners returns the Services that have a unit.
func (l *Ledger) Owners() []types.NamespacedName { return slices.Collect(maps.Keys(l.units)) }

// SetSkeleton replaces the skeleton and returns the difference.
func (l *Ledger) SetSkeleton(sets []ruleset.Set, chains []ruleset.Chain, elements []ruleset.Element) *ruleset.Change {
	var change ruleset.Change
	before := l.skeleton
	l.skeleton = skeleton{sets, chains, elements}
	l.replace(&change, before.sets, sets, before.chains, chains)
	for _, e := range elements {
		l.count(&change, e.Slot, 1)
	}
	for _, e := range before.elements {
		l.count(&change, e.Slot, -1)
	}
	l.withoutDropped(&change)
	return &change
}

// Put replaces the unit of a Service and returns the difference.
func (l *Ledger) Put(unit *ruleset.Unit) *ruleset.Change {
	before := l.units[unit.Owner]
	if before == nil {
		before = &ruleset.Unit{Owner: unit.Owner}
	}
	l.units[unit.Owner] = unit
	return l.swap(before, unit)
}

// Remove drops the unit of a Service and returns the difference.
func (l *Ledger) Remove(owner types.NamespacedName) *ruleset.Change {
	before := l.units[owner]
	if before == nil {
		return &ruleset.Change{}
	}
	delete(l.units, owner)
	return l.swap(before, &ruleset.Unit{Owner: owner})
}

func (l *Ledger) swap(before, after *ruleset.Unit) *ruleset.Change {
	var change ruleset.Change
	l.replace(&change, before.Sets, after.Sets, before.Chains, after.Chains)
	for _, slot := range counted(after) {
		l.count(&change, slot, 1)
	}
	for _, slot := range counted(before) {
		l.count(&change, slot, -1)
	}
	touched := make(map[ruleset.Frontend]bool)
	for _, c := range before.Claims {
		touched[c.Frontend] = true
		l.claims[c.Frontend] = slices.DeleteFunc(l.claims[c.Frontend], func(c claim) bool { return c.unit == before })
	}
	for _, c := range after.Claims {
		touched[c.Frontend] = true
		l.claims[c.Frontend] = append(l.claims[c.Frontend], claim{c, after})
	}
	for frontend := range touched {
		l.settle(&change, frontend)
	}
	return &change
}

// replace records the change of chains and sets.
func (l *Ledger) replace(change *ruleset.Change, setsBefore, sets []ruleset.Set, chainsBefore, chains []ruleset.Chain) {
	kept := make(map[string]bool, len(sets)+len(chains))
	for _, set := range sets {
		kept[set.Name] = true
		if _, exists := l.sets[set.Name]; !exists {
			change.Sets = append(change.Sets, set)
		}
		l.sets[set.Name] = set
	}
	for _, set := range setsBefore {
		if !kept[set.Name] {
			change.DropSets = append(change.DropSets, set.Name)
			delete(l.sets, set.Name)
		}
	}
	clear(kept)
	for _, chain := range chains {
		kept[chain.Name] = true
		existing, exists := l.chains[chain.Name]
		if !exists || existing.Digest != chain.Digest {
			change.Chains = append(change.Chains, chain)
		}
		choose(change, &existing, &chain)
		l.chains[chain.Name] = chain
	}
	for _, chain := range chainsBefore {
		if !kept[chain.Name] {
			change.Empty = append(change.Empty, chain.Name)
			choose(change, &chain, &ruleset.Chain{})
			delete(l.chains, chain.Name)
		}
	}
}

// choose records the change of a chain's choices.
func choose(change *ruleset.Change, before, after *ruleset.Chain) {
	for _, e := range before.Choices() {
		change.Element(e.Slot, ruleset.Delta{Had: true, Was: e.Value})
	}
	for _, e := range after.Choices() {
		change.Element(e.Slot, ruleset.Delta{Has: true, Is: e.Value})
	}
}

// withoutDropped leaves out the elements of sets that are dropped: they go with their set.
func (l *Ledger) withoutDropped(change *ruleset.Change) {
	for slot := range change.Elements {
		if slices.Contains(change.DropSets, slot.Set) {
			delete(change.Elements, slot)
		}
	}
}

// counted returns the slots of the sets that several units may share. A slot may be there twice.
func counted(unit *ruleset.Unit) []ruleset.Slot {
	slots := make([]ruleset.Slot, 0, len(unit.ClusterIPs)+len(unit.Hairpins))
	for _, addr := range unit.ClusterIPs {
		slots = append(slots, ruleset.Slot{Set: ruleset.ClusterIPs, Key: ruleset.Key{Addr: addr}})
	}
	for _, key := range unit.Hairpins {
		slots = append(slots, ruleset.Slot{Set: ruleset.Hairpins, Key: key})
	}
	return slots
}

func (l *Ledger) count(change *ruleset.Change, slot ruleset.Slot, by int) {
	l.counts[slot] += by
	if l.counts[slot] == 0 {
		delete(l.counts, slot)
	}
	l.set(change, slot, l.counts[slot] > 0, ruleset.Value{})
}

// settle gives a frontend to its best claim.
func (l *Ledger) settle(change *ruleset.Change, frontend ruleset.Frontend) {
	if len(l.claims[frontend]) == 0 {
		delete(l.claims, frontend)
	}
	var best ruleset.Claim
	if claims := l.claims[frontend]; len(claims) > 0 {
		best = slices.MinFunc(claims, compare).Claim
	}
	for _, place := range places(frontend) {
		verdict := place.verdict(&best)
		l.set(change, place.slot, verdict.Action != ruleset.None, ruleset.Value{Verdict: verdict})
	}
}

// compare orders the claims to one frontend, the best first.
func compare(a, b claim) int {
	return cmp.Or(
		cmp.Compare(a.Rank, b.Rank), a.unit.Created.Compare(b.unit.Created),
		cmp.Compare(a.unit.Owner.Namespace, b.unit.Owner.Namespace), cmp.Compare(a.unit.Owner.Name, b.unit.Owner.Name),
		// Two ports of one Service: the one that dispatches.
		-cmp.Compare(a.Dispatch.Chain, b.Dispatch.Chain),
	)
}

// place is an element that a claim to a frontend may have.
type place struct {
	slot    ruleset.Slot
	verdict func(*ruleset.Claim) ruleset.Verdict
}

func places(f ruleset.Frontend) []place {
	key := ruleset.Key{Addr: f.Addr, Protocol: f.Protocol, Port: f.Port}
	dispatch, absent := ruleset.ServiceIPs, ruleset.AbsentIPs
	if !f.Addr.IsValid() {
		dispatch, absent = ruleset.ServiceNodePorts, ruleset.AbsentNodePorts
	}
	found := []place{
		{ruleset.Slot{Set: dispatch, Key: key}, func(c *ruleset.Claim) ruleset.Verdict { return c.Dispatch }},
		{ruleset.Slot{Set: absent, Key: key}, func(c *ruleset.Claim) ruleset.Verdict { return c.Absent }},
	}
	if f.Addr.IsValid() {
		slot := ruleset.Slot{Set: ruleset.FirewallIPs, Key: key}
		found = append(found, place{slot, func(c *ruleset.Claim) ruleset.Verdict { return c.Firewall }})
	}
	return found
}

// set records what an element is to be.
func (l *Ledger) set(change *ruleset.Change, slot ruleset.Slot, has bool, value ruleset.Value) {
	was, had := l.elements[slot]
	change.Element(slot, ruleset.Delta{Had: had, Was: was, Has: has, Is: value})
	if has {
		l.elements[slot] = value
	} else {
		delete(l.elements, slot)
	}
}
