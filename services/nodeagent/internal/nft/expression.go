package nft

import (
	"encoding/binary"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// expression writes one expression of a rule. set is the ID of the anonymous set that it uses, if
// any.
func (b *batch) expression(e ruleset.Expression, set uint32) {
	switch e := e.(type) {
	case ruleset.New:
		b.conntrack(ctState, ctNew)
	case ruleset.Translated:
		b.conntrack(ctStatus, ctDNAT)
	case ruleset.Marked:
		b.meta(metaMark)
		b.bitwise(native(ruleset.Mark), native(0))
		b.compare(true, native(0))
	case ruleset.Within:
		b.within(e)
	case ruleset.From:
		b.meta(metaInterface)
		var name [16]byte
		copy(name[:15], e.Interface)
		b.compare(e.Not, name[:])
	case ruleset.Local:
		b.local(e.Source)
	case ruleset.Member:
		if e.Source {
			b.address(true, register)
		} else {
			b.key(e.Kind)
		}
		b.lookup(e.Set, 0, false, e.Not)
	case ruleset.Over:
		b.meta(metaProtocol)
		b.compare(false, []byte{byte(e.Protocol)})
	default:
		b.action(e, set)
	}
}

// action writes an expression that is no match.
func (b *batch) action(e ruleset.Expression, set uint32) {
	switch e := e.(type) {
	case ruleset.SetMark:
		b.setMark(ruleset.Mark)
	case ruleset.ClearMark:
		b.setMark(0)
	case ruleset.Masquerade:
		b.element("masq", func() { b.u32(masqFlags, fullyRandom) })
	case ruleset.Reject:
		// Port unreachable, which a TCP client sees as a refused connection.
		code := byte(3)
		if b.family == ruleset.IPv6 {
			code = 4
		}
		b.element("reject", func() { b.u32(rejectType, rejectICMP); b.bytes(rejectCode, code) })
	case ruleset.Lookup:
		b.key(e.Kind)
		b.lookup(e.Map, 0, true, false)
	case ruleset.Remember:
		b.address(true, register)
		b.element("dynset", func() { b.text(dynsetName, e.Set); b.u32(dynsetOp, dynsetUpdate); b.u32(dynsetKey, register) })
	case ruleset.Translate:
		b.translate(e)
	case ruleset.Spread:
		b.random(len(e.Chains), register)
		b.lookup(anonymousName, set, true, false)
	case ruleset.Verdict:
		b.element("immediate", func() {
			b.u32(immediateRegister, registerVerdict)
			b.nest(immediateData, func() { b.verdict(e) })
		})
	}
}

// element writes an element of a rule's list of expressions.
func (b *batch) element(name string, body func()) {
	b.nest(listElement, func() {
		b.text(expressionName, name)
		b.nest(expressionData, body)
	})
}

func (b *batch) meta(key uint32) {
	b.element("meta", func() { b.u32(metaTarget, register); b.u32(metaKey, key) })
}

// conntrack matches connections that have a bit of a field.
func (b *batch) conntrack(key, bit uint32) {
	b.element("ct", func() { b.u32(ctTarget, register); b.u32(ctKey, key) })
	b.bitwise(native(bit), native(0))
	b.compare(true, native(0))
}

// setMark keeps all bits of the packet's mark but ours, which becomes bit.
func (b *batch) setMark(bit uint32) {
	b.meta(metaMark)
	b.bitwise(native(^ruleset.Mark), native(bit))
	b.element("meta", func() { b.u32(metaKey, metaMark); b.u32(metaSource, register) })
}

// bitwise replaces the register's value by (value & mask) ^ xor.
func (b *batch) bitwise(mask, xor []byte) {
	b.element("bitwise", func() {
		b.u32(bitwiseSource, register)
		b.u32(bitwiseTarget, register)
		b.u32(bitwiseLength, uint32(len(mask)))
		b.value(bitwiseMask, mask)
		b.value(bitwiseXor, xor)
	})
}

// compare matches packets whose value in the register equals this one, or does not.
func (b *batch) compare(not bool, value []byte) {
	op := uint32(compareEqual)
	if not {
		op = compareNot
	}
	b.element("cmp", func() { b.u32(compareRegister, register); b.u32(compareOp, op); b.value(compareData, value) })
}

// value writes data that is no verdict.
func (b *batch) value(kind uint16, value []byte) {
	b.nest(kind, func() { b.bytes(dataValue, value...) })
}

// address loads the packet's destination, or its source.
func (b *batch) address(source bool, target uint32) {
	length := addressLength(b.family)
	offset := 16
	if b.family == ruleset.IPv6 {
		offset = 24
	}
	if source {
		offset -= length
	}
	b.payload(payloadNetwork, offset, length, target)
}

func (b *batch) payload(base, offset, length int, target uint32) {
	b.element("payload", func() {
		b.u32(payloadTarget, target)
		b.u32(payloadBase, uint32(base))
		b.u32(payloadOffset, uint32(offset))
		b.u32(payloadLength, uint32(length))
	})
}

// key loads the packet's key of a kind.
func (b *batch) key(kind ruleset.Kind) {
	target, words := uint32(register), uint32(addressLength(b.family)/4)
	if kind == ruleset.Connections {
		b.address(true, target)
		target += words
	}
	if kind != ruleset.Ports {
		b.address(false, target)
		target += words
	}
	if kind != ruleset.Addresses && kind != ruleset.Ranges {
		b.element("meta", func() { b.u32(metaTarget, target); b.u32(metaKey, metaProtocol) })
		// The destination's port is at the same place in TCP, UDP and SCTP.
		b.payload(payloadTransport, 2, 2, target+1)
	}
}

// lookup finds the register's value in a set, or with not its absence, or with verdict follows what a map has
// for it. id is that of an anonymous set.
func (b *batch) lookup(set string, id uint32, verdict, not bool) {
	b.element("lookup", func() {
		b.text(lookupSet, set)
		b.u32(lookupSource, register)
		if verdict {
			b.u32(lookupTarget, registerVerdict)
		}
		if id != 0 {
			b.u32(lookupSetID, id)
		}
		if not {
			b.u32(lookupFlags, lookupInvert)
		}
	})
}

func (b *batch) within(e ruleset.Within) {
	b.address(e.Source, register)
	length := addressLength(b.family)
	if bits := e.Prefix.Bits(); bits < 8*length {
		mask := make([]byte, length)
		for i := range bits {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		b.bitwise(mask, make([]byte, length))
	}
	b.compare(e.Not, e.Prefix.Masked().Addr().AsSlice())
}

func (b *batch) local(source bool) {
	flags := uint32(fibDest)
	if source {
		flags = fibSource
	}
	b.element("fib", func() { b.u32(fibTarget, register); b.u32(fibResult, fibType); b.u32(fibFlags, flags) })
	b.compare(false, native(routeLocal))
}

// random loads a random number below n, by which choices are numbered.
func (b *batch) random(n int, target uint32) {
	b.element("numgen", func() {
		b.u32(numgenTarget, target)
		b.u32(numgenModulus, uint32(n))
		b.u32(numgenType, numgenRandom)
	})
}

func (b *batch) translate(e ruleset.Translate) {
	port := register + uint32(addressLength(b.family)/4)
	load := func(target uint32, value []byte) {
		b.element("immediate", func() { b.u32(immediateRegister, target); b.value(immediateData, value) })
	}
	if e.ID == 0 {
		load(register, e.To[0].Addr().AsSlice())
		load(port, binary.BigEndian.AppendUint16(nil, e.To[0].Port()))
	} else {
		load(register, native(uint32(e.ID>>32)))
		load(register+1, native(uint32(e.ID)))
		b.random(len(e.To), register+2)
		b.element("lookup", func() {
			b.text(lookupSet, ruleset.EndpointsMap(e.ID))
			b.u32(lookupSource, register)
			b.u32(lookupTarget, register)
		})
	}
	b.element("nat", func() {
		b.u32(natType, natDest)
		b.u32(natFamily, uint32(netlinkFamily(b.family)))
		b.u32(natAddress, register)
		b.u32(natPort, port)
	})
}

// verdict writes a verdict as data.
func (b *batch) verdict(v ruleset.Verdict) {
	code := int32(codeDrop)
	switch v.Action {
	case ruleset.Return:
		code = codeReturn
	case ruleset.Jump:
		code = codeJump
	case ruleset.Goto:
		code = codeGoto
	}
	b.nest(dataVerdict, func() {
		b.u32(verdictCode, uint32(code))
		if v.Chain != "" {
			b.text(verdictChain, v.Chain)
		}
	})
}

// native returns a number as the kernel holds it in a register.
func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
