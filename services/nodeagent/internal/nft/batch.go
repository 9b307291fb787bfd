package nft

import (
	"maps"
	"slices"
	"strings"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

const (
	// anonymousName makes the kernel name an anonymous set.
	anonymousName = "__gb%d"
	// maxPerMessage is the most elements in a message, whose list must stay below 64 KiB.
	maxPerMessage = 400
	// maxRemembered is the most clients that an affinity set has. Further ones have no affinity.
	maxRemembered = 65_535
	// elementSize and chainSize are about what an element, and a chain with a rule, need in a transaction, in bytes.
	elementSize = 80
	chainSize   = 800
)

// batch writes one transaction for the table of a family.
type batch struct {
	message
	family ruleset.Family
	table  string
	sets   uint32
}

// encode returns the messages of a change.
func encode(family ruleset.Family, table string, change *ruleset.Change) *batch {
	b := newBatch(family, table)
	b.buf = slices.Grow(b.buf, elementSize*len(change.Elements)+chainSize*len(change.Chains))
	if change.Rebuild {
		b.newTable()
		b.named(msgDelTable, tableName, b.table)
	}
	b.newTable()
	for _, name := range change.Rebase {
		b.named(msgDelChain, chainTable, b.table, chainName, name)
	}
	for _, set := range change.Sets {
		b.newSet(set)
	}
	for i := range change.Chains {
		b.newChain(&change.Chains[i])
	}
	gone, added := bySet(change.Elements)
	b.elements(msgDelElement, 0, gone)
	for i := range change.Chains {
		b.named(msgDelRule, ruleTable, b.table, ruleChain, change.Chains[i].Name)
		for at, rule := range change.Chains[i].Rules {
			b.rule(&change.Chains[i], at, rule)
		}
	}
	for _, name := range change.Empty {
		b.named(msgDelRule, ruleTable, b.table, ruleChain, name)
	}
	b.elements(msgNewElement, flagCreate, added)
	for _, name := range change.DropSets {
		b.named(msgDelSet, setTable, b.table, setName, name)
	}
	b.close()
	return b
}

// bySet returns the elements to remove and those to add, in this order for one that is replaced, by the name of their
// set.
func bySet(deltas map[ruleset.Slot]ruleset.Delta) (gone, added map[string][]ruleset.Element) {
	// Counted first, since at the start they are everything, and lists that grow need twice the memory.
	goneIn, addedIn := make(map[string]int), make(map[string]int)
	for slot, delta := range deltas {
		if delta.Had {
			goneIn[slot.Set]++
		}
		if delta.Has {
			addedIn[slot.Set]++
		}
	}
	gone, added = make(map[string][]ruleset.Element, len(goneIn)), make(map[string][]ruleset.Element, len(addedIn))
	for slot, delta := range deltas {
		if delta.Had {
			put(gone, goneIn, ruleset.Element{Slot: slot, Value: delta.Was})
		}
		if delta.Has {
			put(added, addedIn, ruleset.Element{Slot: slot, Value: delta.Is})
		}
	}
	return gone, added
}

// put adds an element to the list of its set, which is made for the number that sizes has.
func put(lists map[string][]ruleset.Element, sizes map[string]int, e ruleset.Element) {
	list, ok := lists[e.Set]
	if !ok {
		list = make([]ruleset.Element, 0, sizes[e.Set])
	}
	lists[e.Set] = append(list, e)
}

func newBatch(family ruleset.Family, table string) *batch {
	b := &batch{family: family, table: table}
	b.begin(batchBegin, 0, 0, subsystem)
	b.end()
	return b
}

// close completes the transaction. The last message before its end is acknowledged, which the kernel
// does once it has committed all of them.
func (b *batch) close() {
	b.acknowledged()
	b.begin(batchEnd, 0, 0, subsystem)
	b.end()
}

func (b *batch) open(kind, flags uint16) { b.begin(kind, flags, netlinkFamily(b.family), 0) }

// named writes a message of names alone: pairs of an attribute's kind and its text.
func (b *batch) named(kind uint16, pairs ...any) {
	b.open(kind, 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i+1].(string)
		attribute, _ := pairs[i].(int)
		b.text(uint16(attribute), name)
	}
	b.end()
}

func (b *batch) newTable() {
	b.open(msgNewTable, flagCreate)
	b.text(tableName, b.table)
	b.end()
}

func (b *batch) newChain(c *ruleset.Chain) {
	b.open(msgNewChain, flagCreate)
	b.text(chainTable, b.table)
	b.text(chainName, c.Name)
	if c.Base != nil {
		b.nest(chainHook, func() {
			b.u32(hookNumber, uint32(c.Base.Hook))
			b.u32(hookPriority, uint32(c.Base.Priority))
		})
		b.text(chainType, c.Base.Type)
	}
	b.end()
}

func (b *batch) newSet(s ruleset.Set) {
	b.sets++
	b.open(msgNewSet, flagCreate)
	b.text(setTable, b.table)
	b.text(setName, s.Name)
	flags := uint32(0)
	if s.Verdicts || s.Kind == ruleset.Choices {
		flags |= setMap
	}
	if s.Timeout > 0 {
		flags |= setTimeouts | setDynamic
	}
	if s.Kind == ruleset.Ranges {
		flags |= setInterval
	}
	b.u32(setFlags, flags)
	b.u32(setKeyType, keyType(b.family, s.Kind))
	b.u32(setKeyLength, uint32(keyLength(b.family, s.Kind)))
	switch {
	case s.Verdicts:
		b.u32(setDataType, dataIsVerdict)
	case s.Kind == ruleset.Choices:
		b.u32(setDataType, endpointType(b.family))
		b.u32(setDataLength, uint32(endpointLength(b.family)))
	}
	b.u32(setID, b.sets)
	if s.Timeout > 0 {
		b.u64(setTimeout, uint64(s.Timeout.Milliseconds()))
		b.nest(setDescription, func() { b.u32(setSize, maxRemembered) })
	}
	b.end()
}

// rule writes a rule, after the anonymous sets that it uses.
func (b *batch) rule(c *ruleset.Chain, at int, rule ruleset.Rule) {
	used := make([]uint32, len(rule))
	for i, e := range rule {
		used[i] = b.anonymousOf(e)
	}
	b.open(msgNewRule, flagCreate|flagAppend)
	b.text(ruleTable, b.table)
	b.text(ruleChain, c.Name)
	b.nest(ruleExpressions, func() {
		for i, e := range rule {
			b.expression(e, used[i])
		}
	})
	b.bytes(ruleUserdata, comment(c.Tag(at), c.Comment)...)
	b.end()
}

// comment returns userdata that nft shows as a comment.
func comment(tag, more string) []byte {
	value := strings.TrimSuffix(tag+" "+more, " ") + "\x00"
	return append([]byte{userdataComment, byte(len(value))}, value...)
}

// tag returns the tag of a rule by its userdata, or "".
func tag(userdata []byte) string {
	if len(userdata) < 2 || userdata[0] != userdataComment || int(userdata[1]) > len(userdata)-2 {
		return ""
	}
	tag, _, _ := strings.Cut(text(userdata[2:2+int(userdata[1])]), " ")
	return tag
}

// anonymousOf creates the map of an expression that chooses among chains, and returns its ID; 0 for
// other expressions.
func (b *batch) anonymousOf(e ruleset.Expression) uint32 {
	spread, ok := e.(ruleset.Spread)
	if !ok {
		return 0
	}
	b.sets++
	id, n := b.sets, len(spread.Chains)
	b.open(msgNewSet, flagCreate)
	b.text(setTable, b.table)
	b.text(setName, anonymousName)
	b.u32(setFlags, setAnonymous|setConstant|setMap)
	b.u32(setKeyType, typeInteger)
	b.u32(setKeyLength, 4)
	b.u32(setDataType, dataIsVerdict)
	b.u32(setID, id)
	b.nest(setDescription, func() { b.u32(setSize, uint32(n)) })
	b.bytes(setUserdata, append([]byte{userdataOrder, 4}, native(orderNative)...)...)
	b.end()
	for start := 0; start < n; start += maxPerMessage {
		b.elementList(msgNewElement, flagCreate, anonymousName, id, start, min(start+maxPerMessage, n), func(i int) {
			b.value(elementKey, native(uint32(i)))
			b.nest(elementData, func() { b.verdict(ruleset.GotoChain(spread.Chains[i])) })
		})
	}
	return id
}

// elements writes elements of named sets, by the set's name.
func (b *batch) elements(kind, flags uint16, lists map[string][]ruleset.Element) {
	for _, set := range slices.Sorted(maps.Keys(lists)) {
		list := lists[set]
		if kindOf(set) == ruleset.Ranges { // The kernel wants each end after its beginning.
			slices.SortFunc(list, func(a, b ruleset.Element) int { return a.Key.Addr.Compare(b.Key.Addr) })
		}
		for start := 0; start < len(list); start += maxPerMessage {
			b.elementList(kind, flags, set, 0, start, min(start+maxPerMessage, len(list)), func(i int) {
				b.value(elementKey, appendKey(nil, kindOf(set), list[i].Key))
				if kindOf(set) == ruleset.Ranges && list[i].Key.Index == 1 {
					b.u32(elementFlags, elementEnd)
				}
				switch value := list[i].Value; {
				case kind == msgDelElement:
				case value.Verdict.Action != ruleset.None:
					b.nest(elementData, func() { b.verdict(value.Verdict) })
				case value.To.IsValid():
					b.value(elementData, appendEndpoint(nil, value.To))
				}
			})
		}
	}
}

func (b *batch) elementList(kind, flags uint16, set string, id uint32, from, to int, element func(i int)) {
	b.open(kind, flags)
	b.text(listTable, b.table)
	b.text(listSet, set)
	if id != 0 {
		b.u32(listSetID, id)
	}
	b.nest(listElements, func() {
		for i := from; i < to; i++ {
			b.nest(listElement, func() { element(i) })
		}
	})
	b.end()
}
