package nft

import (
	"slices"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// foreignVerdict stands for a verdict that is none of ours.
const foreignVerdict = "?"

// reader collects the messages of a dump into what a table has.
type reader struct {
	family ruleset.Family
	table  string
	actual *ruleset.Actual
}

func newReader(family ruleset.Family, table string) *reader {
	return &reader{family: family, table: table, actual: &ruleset.Actual{
		Chains: make(map[string]ruleset.ActualChain), Sets: make(map[string]ruleset.Set), Elements: make(map[ruleset.Slot]ruleset.Value),
	}}
}

// chain reads a message about a chain, of any table.
func (r *reader) chain(m received) {
	var table, name, kind string
	var base *ruleset.Base
	for k, value := range m.attributes() {
		switch k {
		case chainTable:
			table = text(value)
		case chainName:
			name = text(value)
		case chainType:
			kind = text(value)
		case chainHook:
			base = &ruleset.Base{
				Hook: ruleset.Hook(number(attribute(value, hookNumber))), Priority: int32(uint32(number(attribute(value, hookPriority)))),
			}
		}
	}
	if table != r.table || name == "" {
		return
	}
	if base != nil {
		base.Type = kind
	}
	r.actual.Exists = true
	r.actual.Chains[name] = ruleset.ActualChain{Base: base}
}

// rule reads a message about a rule. Rules come in the order of their chain.
func (r *reader) rule(m received) {
	var table, chain, found string
	for k, value := range m.attributes() {
		switch k {
		case ruleTable:
			table = text(value)
		case ruleChain:
			chain = text(value)
		case ruleUserdata:
			found = tag(value)
		}
	}
	c, ok := r.actual.Chains[chain]
	if table != r.table || !ok {
		return
	}
	c.Tags = append(c.Tags, found)
	r.actual.Chains[chain] = c
}

// set reads a message about a set. Anonymous sets belong to their rules.
func (r *reader) set(m received) {
	var table string
	var set ruleset.Set
	var flags, kind, data uint32
	for k, value := range m.attributes() {
		switch k {
		case setTable:
			table = text(value)
		case setName:
			set.Name = text(value)
		case setFlags:
			flags = uint32(number(value))
		case setKeyType:
			kind = uint32(number(value))
		case setDataType:
			data = uint32(number(value))
		case setTimeout:
			set.Timeout = time.Duration(min(number(value), 1<<40)) * time.Millisecond
		}
	}
	if table != r.table || flags&setAnonymous != 0 || set.Name == "" {
		return
	}
	set.Kind, set.Verdicts = unknownKind, flags&setMap != 0 && data == dataIsVerdict
	expected := uint32(0)
	if set.Timeout > 0 {
		expected = setTimeouts | setDynamic
	}
	for _, candidate := range []ruleset.Kind{ruleset.Addresses, ruleset.Services, ruleset.Ports, ruleset.Connections} {
		if kind == keyType(r.family, candidate) && flags&^uint32(setMap) == expected {
			set.Kind = candidate
		}
	}
	if kind == keyType(r.family, ruleset.Ranges) && flags == setInterval {
		set.Kind = ruleset.Ranges
	}
	if kind == keyType(r.family, ruleset.Choices) && flags == setMap && data == endpointType(r.family) {
		set.Kind = ruleset.Choices
	}
	r.actual.Exists = true
	r.actual.Sets[set.Name] = set
}

// readable returns the sets whose elements are to be read.
func (r *reader) readable() []string {
	var names []string
	for name, set := range r.actual.Sets {
		if set.Timeout == 0 && set.Kind == kindOf(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// elements reads a message about elements of a set.
func (r *reader) elements(m received) {
	var set string
	for k, value := range m.attributes() {
		switch k {
		case listSet:
			set = text(value)
		case listElements:
			for _, element := range attributes(value) {
				r.element(set, element)
			}
		}
	}
}

func (r *reader) element(set string, buf []byte) {
	key, ok := parseKey(r.family, kindOf(set), attribute(attribute(buf, elementKey), dataValue))
	if _, known := r.actual.Sets[set]; !known || !ok {
		return
	}
	if kindOf(set) == ruleset.Ranges {
		key.Index = uint32(number(attribute(buf, elementFlags)) & elementEnd)
	}
	var value ruleset.Value
	verdict := &value.Verdict
	if data := attribute(attribute(buf, elementData), dataValue); data != nil {
		value.To, _ = parseEndpoint(r.family, data)
	}
	if data := attribute(attribute(buf, elementData), dataVerdict); data != nil {
		verdict.Chain = text(attribute(data, verdictChain))
		switch int32(uint32(number(attribute(data, verdictCode)))) {
		case codeDrop:
			verdict.Action = ruleset.Drop
		case codeReturn:
			verdict.Action = ruleset.Return
		case codeJump:
			verdict.Action = ruleset.Jump
		case codeGoto:
			verdict.Action = ruleset.Goto
		default:
			verdict.Chain = foreignVerdict
		}
	}
	r.actual.Elements[ruleset.Slot{Set: set, Key: key}] = value
}
