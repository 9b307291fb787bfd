package ruleset

import (
	"fmt"
	"net/netip"
	"strings"
)

// Mark is the bit of a packet's mark that asks for masquerading after routing. It is the bit that
// kube-proxy uses by default.
const Mark uint32 = 1 << 14

// Expression is a part of a rule: a match, which ends the rule for packets that do not have it, or
// an action. The types of this file are all expressions there are.
type Expression interface {
	// Text returns the expression in nft's syntax.
	Text(f Family) string
}

// The matches.
type (
	// New matches the first packet of a connection.
	New struct{}
	// Translated matches connections whose destination was translated.
	Translated struct{}
	// Marked matches packets with Mark.
	Marked struct{}
	// Within matches packets whose destination, or source, is in a prefix; with Not the others.
	Within struct {
		Prefix netip.Prefix
		Source bool
		Not    bool
	}
	// From matches packets from a network interface; with Not the others.
	From struct {
		Interface string
		Not       bool
	}
	// Local matches packets whose destination, or source, is an address of the node.
	Local struct{ Source bool }
	// Member matches packets whose key is in a set; with Not the others. With Source, the key is the source's
	// address.
	Member struct {
		Set    string
		Kind   Kind
		Source bool
		Not    bool
	}
	// Over matches packets of a transport protocol.
	Over struct{ Protocol Protocol }
)

// The actions.
type (
	// SetMark sets Mark.
	SetMark struct{}
	// ClearMark clears Mark.
	ClearMark struct{}
	// Masquerade replaces the source by an address of the interface that the packet leaves by.
	Masquerade struct{}
	// Reject answers with "port unreachable" and drops the packet.
	Reject struct{}
	// Lookup follows the verdict that a map has for the packet's key. It ends the rule when there
	// is none.
	Lookup struct {
		Map  string
		Kind Kind
	}
	// Remember adds the source to a set, or renews its timeout.
	Remember struct{ Set string }
	// Translate sends the connection to one of the endpoints, at random. There is at least one, and
	// all are of the table's family. With an ID, the endpoints are elements of an EndpointsMap, so that
	// one can be replaced without a change of the rule. Without, there is only one.
	Translate struct {
		To []netip.AddrPort
		ID uint64
	}
	// Spread continues in one of the chains, at random. There is at least one.
	Spread struct{ Chains []string }
)

// Action is what a Verdict does.
type Action uint8

// The actions of verdicts. The zero value is no verdict.
const (
	None Action = iota
	Drop
	Return
	Jump
	Goto
)

// Verdict ends a rule. Chain is set for Jump and Goto.
type Verdict struct {
	Action Action
	Chain  string
}

// GotoChain returns the verdict that continues in a chain for good.
func GotoChain(name string) Verdict { return Verdict{Action: Goto, Chain: name} }

// Text implements Expression.
func (New) Text(Family) string { return "ct state new" }

// Text implements Expression.
func (Translated) Text(Family) string { return "ct status dnat" }

// Text implements Expression.
func (Marked) Text(Family) string { return fmt.Sprintf("meta mark and %#x != 0", Mark) }

// Text implements Expression.
func (e Within) Text(f Family) string {
	return f.ip() + " " + side(e.Source) + not(e.Not) + " " + e.Prefix.String()
}

// Text implements Expression.
func (e From) Text(Family) string { return fmt.Sprintf("iifname%s %q", not(e.Not), e.Interface) }

// Text implements Expression.
func (e Local) Text(Family) string { return "fib " + side(e.Source) + " type local" }

// Text implements Expression.
func (e Member) Text(f Family) string {
	if e.Source {
		return f.ip() + " saddr" + not(e.Not) + " @" + e.Set
	}
	return e.Kind.packet(f) + not(e.Not) + " @" + e.Set
}

// Text implements Expression.
func (e Over) Text(Family) string { return "meta l4proto " + e.Protocol.String() }

// Text implements Expression.
func (SetMark) Text(Family) string { return fmt.Sprintf("meta mark set meta mark or %#x", Mark) }

// Text implements Expression.
func (ClearMark) Text(Family) string { return fmt.Sprintf("meta mark set meta mark and %#x", ^Mark) }

// Text implements Expression.
func (Masquerade) Text(Family) string { return "masquerade fully-random" }

// Text implements Expression.
func (Reject) Text(Family) string { return "reject" }

// Text implements Expression.
func (e Lookup) Text(f Family) string { return e.Kind.packet(f) + " vmap @" + e.Map }

// Text implements Expression.
func (e Remember) Text(f Family) string { return "update @" + e.Set + " { " + f.ip() + " saddr }" }

// Text implements Expression.
func (e Translate) Text(f Family) string {
	if e.ID == 0 {
		return "dnat to " + e.To[0].String()
	}
	return fmt.Sprintf("dnat %s addr . port to %#x . %#x . numgen random mod %d map @%s",
		f.ip(), uint32(e.ID>>32), uint32(e.ID), len(e.To), EndpointsMap(e.ID))
}

// Text implements Expression.
func (e Spread) Text(Family) string {
	parts := make([]string, len(e.Chains))
	for i, chain := range e.Chains {
		parts[i] = fmt.Sprintf("%d : goto %s", i, chain)
	}
	return fmt.Sprintf("numgen random mod %d vmap { %s }", len(e.Chains), strings.Join(parts, ", "))
}

// Text implements Expression.
func (v Verdict) Text(Family) string {
	switch v.Action {
	case Drop:
		return "drop"
	case Return:
		return "return"
	case Jump:
		return "jump " + v.Chain
	case Goto:
		return "goto " + v.Chain
	}
	return ""
}

// Choices returns the elements of an EndpointsMap that the expression needs.
func (e Translate) Choices() []Element {
	if e.ID == 0 {
		return nil
	}
	elements, set := make([]Element, len(e.To)), EndpointsMap(e.ID)
	for i, to := range e.To {
		elements[i] = Element{Slot{Set: set, Key: Key{ID: e.ID, Index: uint32(i)}}, Value{To: to}}
	}
	return elements
}

func side(source bool) string {
	if source {
		return "saddr"
	}
	return "daddr"
}

func not(inverted bool) string {
	if inverted {
		return " !="
	}
	return ""
}
