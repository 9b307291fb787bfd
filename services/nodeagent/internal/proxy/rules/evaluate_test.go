package rules_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/ledger"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

// world is a table, as the kernel would have it, that packets are sent through.
type world struct {
	family   ruleset.Family
	node     *rules.Node
	chains   map[string]ruleset.Chain
	sets     map[string]ruleset.Set
	elements map[ruleset.Slot]ruleset.Value
	units    []ruleset.Unit
	refused  []rules.Refusal
}

// build compiles Services with their slices, by name, into a world.
func build(f ruleset.Family, n *rules.Node, services []*corev1.Service, endpointSlices []*discoveryv1.EndpointSlice) *world {
	w := &world{
		family: f, node: n, chains: make(map[string]ruleset.Chain), sets: make(map[string]ruleset.Set),
		elements: make(map[ruleset.Slot]ruleset.Value),
	}
	l := ledger.New()
	l.SetSkeleton(rules.Skeleton(f, n))
	for _, s := range services {
		own := slices.DeleteFunc(slices.Clone(endpointSlices), func(slice *discoveryv1.EndpointSlice) bool {
			return slice.Labels[discoveryv1.LabelServiceName] != s.Name
		})
		unit, refused := rules.Compile(f, n, s, own, netip.AddrPort{})
		l.Put(&unit)
		w.units, w.refused = append(w.units, unit), append(w.refused, refused...)
	}
	all := l.Repair(&ruleset.Actual{})[0]
	for _, chain := range all.Chains {
		w.chains[chain.Name] = chain
	}
	for _, set := range all.Sets {
		w.sets[set.Name] = set
	}
	for slot, delta := range all.Elements {
		w.elements[slot] = delta.Is
	}
	return w
}

// packet is the first packet of a connection. One that the node itself sends is marked output.
type packet struct {
	from, to string
	protocol ruleset.Protocol
	port     uint16
	in       string
	output   bool
	// remembered has the affinity sets that the source is in.
	remembered string
}

// flight is a packet on its way through the chains.
type flight struct {
	w          *world
	from, to   netip.Addr
	port       uint16
	p          packet
	mark       bool
	translated bool
	masquerade bool
	// choices has the endpoints that the packet may be sent to.
	choices []netip.AddrPort
	fate    string
}

// send returns what happens to a packet: "pass", "reject", "drop", or the endpoints that it may
// reach, with "masquerade" where its source is replaced.
func (w *world) send(t *testing.T, p packet) string {
	t.Helper()
	if p.protocol == 0 {
		p.protocol = ruleset.TCP
	}
	f := &flight{w: w, from: netip.MustParseAddr(p.from), to: netip.MustParseAddr(p.to), port: p.port, p: p}
	first, translate := ruleset.Prerouting, "nat-prerouting"
	if p.output {
		first, translate = ruleset.Output, "nat-output"
	}
	f.base(t, "before-"+first.String())
	if f.fate == "" {
		f.base(t, translate)
	}
	fates := make(map[string]bool)
	if len(f.choices) == 0 {
		fates[f.finish(t, f.to, f.port)] = true
	}
	for _, choice := range f.choices {
		each := *f
		fates[each.finish(t, choice.Addr(), choice.Port())] = true
	}
	var all []string
	for fate := range fates {
		all = append(all, fate)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// finish sends the packet on from where its destination is settled.
func (f *flight) finish(t *testing.T, to netip.Addr, port uint16) string {
	result := "pass"
	if len(f.choices) > 0 {
		result = netip.AddrPortFrom(to, port).String()
	}
	f.to, f.port = to, port
	f.translated, f.choices = len(f.choices) > 0, nil
	hook := "filter-forward"
	switch {
	case f.fate != "":
	case f.p.output:
		f.base(t, "filter-output")
	case f.local(to):
		f.base(t, "filter-input")
	default:
		f.base(t, hook)
	}
	if f.fate != "" {
		return f.fate
	}
	f.base(t, "nat-postrouting")
	if f.masquerade {
		result += " masquerade"
	}
	return result
}

func (f *flight) local(addr netip.Addr) bool {
	return addr.IsLoopback() || slices.Contains(f.w.node.IPs, addr) || slices.Contains(f.w.node.Present, addr)
}

func (f *flight) base(t *testing.T, chain string) {
	t.Helper()
	if f.w.chains[chain].Base == nil {
		t.Fatalf("there is no base chain %s", chain)
	}
	f.chain(t, chain, 0)
}

// chain runs the rules of a chain. It reports whether the packet's way ends in it.
func (f *flight) chain(t *testing.T, name string, depth int) bool {
	t.Helper()
	chain, ok := f.w.chains[name]
	if !ok || depth > 8 {
		t.Fatalf("chain %s at depth %d: exists = %v", name, depth, ok)
	}
	for _, rule := range chain.Rules {
		verdict := f.rule(t, rule, depth)
		switch {
		case f.fate != "" || len(f.choices) > 0:
			return true
		case verdict.Action == ruleset.Drop:
			f.fate = "drop"
			return true
		case verdict.Action == ruleset.Return:
			return false
		case verdict.Action == ruleset.Jump:
			if f.chain(t, verdict.Chain, depth+1) {
				return true
			}
		case verdict.Action == ruleset.Goto:
			return f.chain(t, verdict.Chain, depth+1)
		}
	}
	return false
}

// rule returns the verdict of a rule; none when it does not match.
func (f *flight) rule(t *testing.T, rule ruleset.Rule, depth int) ruleset.Verdict {
	t.Helper()
	for _, e := range rule {
		switch e := e.(type) {
		case ruleset.Verdict:
			return e
		case ruleset.Lookup:
			return f.w.elements[ruleset.Slot{Set: e.Map, Key: f.key(e.Kind)}].Verdict
		case ruleset.Reject:
			f.fate = "reject"
		case ruleset.Translate:
			f.translate(t, e)
		case ruleset.Spread:
			f.spread(t, e, depth)
		case ruleset.SetMark:
			f.mark = true
		case ruleset.ClearMark:
			f.mark = false
		case ruleset.Masquerade:
			f.masquerade = true
		case ruleset.Remember:
			if _, ok := f.w.sets[e.Set]; !ok {
				t.Fatalf("there is no set %s", e.Set)
			}
		default:
			if !f.matches(t, e) {
				return ruleset.Verdict{}
			}
		}
	}
	return ruleset.Verdict{}
}

// translate looks the endpoints up where the kernel would.
func (f *flight) translate(t *testing.T, e ruleset.Translate) {
	t.Helper()
	if e.ID == 0 {
		f.choices = append(f.choices, e.To...)
		return
	}
	for _, choice := range e.Choices() {
		value, ok := f.w.elements[choice.Slot]
		if !ok || f.w.sets[choice.Set].Kind != ruleset.Choices {
			t.Fatalf("the map has no element %v", choice.Slot)
		}
		f.choices = append(f.choices, value.To)
	}
}

func (f *flight) spread(t *testing.T, e ruleset.Spread, depth int) {
	t.Helper()
	var all []netip.AddrPort
	for _, name := range e.Chains {
		each := *f
		each.chain(t, name, depth+1)
		all = append(all, each.choices...)
	}
	f.choices = all
}

func (f *flight) matches(t *testing.T, e ruleset.Expression) bool {
	t.Helper()
	side := func(source bool) netip.Addr {
		if source {
			return f.from
		}
		return f.to
	}
	switch e := e.(type) {
	case ruleset.New:
		return true
	case ruleset.Translated:
		return f.translated
	case ruleset.Marked:
		return f.mark
	case ruleset.Within:
		return e.Prefix.Contains(side(e.Source)) != e.Not
	case ruleset.From:
		return (e.Interface == f.p.in) != e.Not
	case ruleset.Local:
		return f.local(side(e.Source))
	case ruleset.Over:
		return e.Protocol == f.p.protocol
	case ruleset.Member:
		if e.Source {
			return e.Set == f.p.remembered
		}
		_, ok := f.w.elements[ruleset.Slot{Set: e.Set, Key: f.key(e.Kind)}]
		return ok
	}
	t.Fatalf("no such expression: %s", fmt.Sprintf("%T", e))
	return false
}

func (f *flight) key(kind ruleset.Kind) ruleset.Key {
	key := ruleset.Key{Addr: f.to, Protocol: f.p.protocol, Port: f.port}
	switch kind {
	case ruleset.Addresses:
		return ruleset.Key{Addr: f.to}
	case ruleset.Ports:
		key.Addr = netip.Addr{}
	case ruleset.Connections:
		key.Source = f.from
	}
	return key
}
