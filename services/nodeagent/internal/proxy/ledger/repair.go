package ledger

import (
	"slices"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// Repair returns the changes that turn what the kernel has into the wanted state: first the
// skeleton, then each Service, then what is left over. Each can be applied by itself. Where the
// table is missing, or has a set of another form, there is one change that rebuilds the table.
func (l *Ledger) Repair(actual *ruleset.Actual) []*ruleset.Change {
	if !actual.Exists || l.incompatible(actual) {
		return []*ruleset.Change{l.rebuild()}
	}
	done := make(map[ruleset.Slot]bool, len(l.elements))
	first := l.repairPart(actual, l.skeleton.sets, l.skeleton.chains)
	for _, e := range l.skeleton.elements {
		l.repairElement(first, actual, e.Slot, done)
	}
	changes := []*ruleset.Change{first}
	for _, unit := range l.units {
		change := l.repairPart(actual, unit.Sets, unit.Chains)
		for _, slot := range counted(unit) {
			l.repairElement(change, actual, slot, done)
		}
		for _, c := range unit.Claims {
			// The frontend may have another unit's claim, with a chain that is not there yet. It gets
			// its verdict with that unit.
			if slices.MinFunc(l.claims[c.Frontend], compare).unit != unit {
				continue
			}
			for _, place := range places(c.Frontend) {
				l.repairElement(change, actual, place.slot, done)
			}
		}
		changes = append(changes, change)
	}
	changes = append(changes, l.leftover(actual))
	return slices.DeleteFunc(changes, (*ruleset.Change).IsEmpty)
}

// incompatible reports whether a set of the kernel has the name of a wanted one and another form. A
// set cannot change its form, nor be deleted while rules use it.
func (l *Ledger) incompatible(actual *ruleset.Actual) bool {
	for name, set := range actual.Sets {
		if wanted, ok := l.sets[name]; ok && wanted != set {
			return true
		}
	}
	return false
}

func (l *Ledger) rebuild() *ruleset.Change {
	size := len(l.elements)
	for _, n := range l.choices() {
		size += int(n)
	}
	// It has everything: growing would need the memory twice.
	change := &ruleset.Change{
		Rebuild: true, Sets: make([]ruleset.Set, 0, len(l.sets)), Chains: make([]ruleset.Chain, 0, len(l.chains)),
		Elements: make(map[ruleset.Slot]ruleset.Delta, size),
	}
	for _, set := range l.sets {
		change.Sets = append(change.Sets, set)
	}
	for _, chain := range l.chains {
		change.Chains = append(change.Chains, chain)
		choose(change, &ruleset.Chain{}, &chain)
	}
	for slot, value := range l.elements {
		change.Elements[slot] = ruleset.Delta{Has: true, Is: value}
	}
	return change
}

func (l *Ledger) repairPart(actual *ruleset.Actual, sets []ruleset.Set, chains []ruleset.Chain) *ruleset.Change {
	var change ruleset.Change
	for _, set := range sets {
		if _, exists := actual.Sets[set.Name]; !exists {
			change.Sets = append(change.Sets, set)
		}
	}
	for _, chain := range chains {
		for _, e := range chain.Choices() {
			was, had := actual.Elements[e.Slot]
			change.Element(e.Slot, ruleset.Delta{Had: had, Was: was, Has: true, Is: e.Value})
		}
		existing, exists := actual.Chains[chain.Name]
		if exists && chain.Intact(existing) {
			continue
		}
		if exists && !chain.SameBase(existing) {
			change.Rebase = append(change.Rebase, chain.Name)
		}
		change.Chains = append(change.Chains, chain)
	}
	return &change
}

func (l *Ledger) repairElement(change *ruleset.Change, actual *ruleset.Actual, slot ruleset.Slot, done map[ruleset.Slot]bool) {
	if done[slot] {
		return
	}
	done[slot] = true
	is, has := l.elements[slot]
	was, had := actual.Elements[slot]
	change.Element(slot, ruleset.Delta{Had: had, Was: was, Has: has, Is: is})
}

// leftover returns the removal of everything that no part wants.
func (l *Ledger) leftover(actual *ruleset.Actual) *ruleset.Change {
	var change ruleset.Change
	for name := range actual.Sets {
		if _, wanted := l.sets[name]; !wanted {
			change.DropSets = append(change.DropSets, name)
		}
	}
	for name := range actual.Chains {
		if _, wanted := l.chains[name]; !wanted {
			change.Empty = append(change.Empty, name)
		}
	}
	choices := l.choices()
	for slot, value := range actual.Elements {
		_, wanted := l.elements[slot]
		if ruleset.HasEndpoints(slot.Set) {
			wanted = slot.Key.Index < choices[slot.Key.ID]
		}
		if _, exists := l.sets[slot.Set]; !wanted && exists {
			change.Element(slot, ruleset.Delta{Had: true, Was: value})
		}
	}
	return &change
}

// choices returns the number of choices of each chain that has any, by its ID.
func (l *Ledger) choices() map[uint64]uint32 {
	numbers := make(map[uint64]uint32)
	for _, chain := range l.chains {
		for _, rule := range chain.Rules {
			for _, e := range rule {
				if t, ok := e.(ruleset.Translate); ok && t.ID != 0 {
					numbers[t.ID] = uint32(len(t.To))
				}
			}
		}
	}
	return numbers
}
