package ruleset

import "strconv"

// Delta is the change of one element: what the table had at the slot, and what it is to have.
type Delta struct {
	Had, Has bool
	Was, Is  Value
}

// Change is a difference between two states of a table. It is applied as one transaction.
type Change struct {
	// Rebuild deletes the table, with everything in it, and creates it again before the rest.
	Rebuild bool
	// Sets are created where missing.
	Sets []Set
	// Chains are created where missing; their rules replace those that they have.
	Chains []Chain
	// Rebase has the chains whose hook differs. They are deleted before Chains are created.
	Rebase []string
	// Elements has the elements to add, remove or replace.
	Elements map[Slot]Delta
	// Empty has the chains to remove all rules from. They can be deleted somewhat later: kernels
	// before Linux 6.2 refuse to delete a chain right after the last element that names it.
	Empty []string
	// DropSets has the sets to delete.
	DropSets []string
}

// IsEmpty reports whether the change does nothing.
func (c *Change) IsEmpty() bool {
	return !c.Rebuild && len(c.Sets)+len(c.Chains)+len(c.Rebase)+len(c.Elements)+len(c.Empty)+len(c.DropSets) == 0
}

// Size estimates the work of applying the change, in objects.
func (c *Change) Size() int {
	size := len(c.Sets) + len(c.Elements) + len(c.Empty) + len(c.DropSets)
	for i := range c.Chains {
		size += 1 + len(c.Chains[i].Rules)
		for _, rule := range c.Chains[i].Rules {
			for _, e := range rule {
				if spread, ok := e.(Spread); ok {
					size += len(spread.Chains)
				}
			}
		}
	}
	return size
}

// Merge adds another change that follows this one. The two must not be about the same chains or sets.
func (c *Change) Merge(next *Change) {
	c.Rebuild = c.Rebuild || next.Rebuild
	c.Sets = append(c.Sets, next.Sets...)
	c.Chains = append(c.Chains, next.Chains...)
	c.Rebase = append(c.Rebase, next.Rebase...)
	c.Empty = append(c.Empty, next.Empty...)
	c.DropSets = append(c.DropSets, next.DropSets...)
	for slot, delta := range next.Elements {
		c.Element(slot, delta)
	}
}

// Element adds the change of one element, which follows any earlier change of it.
func (c *Change) Element(slot Slot, delta Delta) {
	if earlier, ok := c.Elements[slot]; ok {
		delta.Had, delta.Was = earlier.Had, earlier.Was
	}
	if delta.Had == delta.Has && (!delta.Had || delta.Was == delta.Is) {
		delete(c.Elements, slot)
		return
	}
	if c.Elements == nil {
		c.Elements = make(map[Slot]Delta)
	}
	c.Elements[slot] = delta
}

// Actual is what a table of the kernel has.
type Actual struct {
	// Exists reports whether there is such a table.
	Exists bool
	Chains map[string]ActualChain
	Sets   map[string]Set
	// Elements has the elements of the sets without a timeout.
	Elements map[Slot]Value
}

// ActualChain is a chain of the kernel.
type ActualChain struct {
	Base *Base
	// Tags has the tag of each rule, in order; see Tag. A rule of another program has some other
	// text.
	Tags []string
}

// Tag returns what identifies a rule of a chain in the kernel.
func (c *Chain) Tag(rule int) string { return c.Digest + "." + strconv.Itoa(rule) }

// Intact reports whether the kernel's chain has exactly the rules of this one.
func (c *Chain) Intact(actual ActualChain) bool {
	if !c.SameBase(actual) || len(actual.Tags) != len(c.Rules) {
		return false
	}
	for i, tag := range actual.Tags {
		if tag != c.Tag(i) {
			return false
		}
	}
	return true
}

// SameBase reports whether the kernel's chain has the hook of this one.
func (c *Chain) SameBase(actual ActualChain) bool {
	if c.Base == nil || actual.Base == nil {
		return c.Base == nil && actual.Base == nil
	}
	return *c.Base == *actual.Base
}
