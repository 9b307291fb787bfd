package nft

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

func TestMessageRoundTrip(t *testing.T) {
	var m message
	m.begin(msgNewRule, flagCreate, familyIPv4, 0)
	m.text(1, "table")
	m.u32(2, 0x01020304)
	m.u64(3, 1<<40)
	m.nest(4, func() { m.bytes(5, 1, 2, 3); m.text(6, "") })
	m.end()
	m.begin(batchEnd, 0, 0, subsystem)
	m.end()
	m.acknowledged()
	var got []received
	for r := range split(m.buf) {
		got = append(got, r)
	}
	if len(got) != 2 || got[0].kind != msgNewRule || got[0].flags != flagCreate|flagRequest || got[0].seq != 1 ||
		got[1].kind != batchEnd || got[1].flags != flagAck|flagRequest || got[1].seq != 2 {
		t.Fatalf("messages %+v", got)
	}
	if !bytes.Equal(got[1].payload, []byte{0, 0, 0, subsystem}) {
		t.Errorf("the header of the batch is %v", got[1].payload)
	}
	body := got[0].payload[4:]
	if text(attribute(body, 1)) != "table" || number(attribute(body, 2)) != 0x01020304 || number(attribute(body, 3)) != 1<<40 {
		t.Errorf("attributes %v", body)
	}
	nested := attribute(body, 4)
	if !bytes.Equal(attribute(nested, 5), []byte{1, 2, 3}) || attribute(nested, 6) == nil || attribute(nested, 7) != nil {
		t.Errorf("nested attributes %v", nested)
	}
}

func TestCutOffMessages(t *testing.T) {
	var m message
	m.begin(msgNewRule, 0, familyIPv4, 0)
	m.text(1, "table")
	m.text(2, "chain")
	m.end()
	for length := range m.buf {
		for r := range split(m.buf[:length]) {
			t.Errorf("of %d bytes there is a message of %d", length, len(r.payload))
		}
	}
	body := m.buf[headerLength+4:]
	// The last attribute ends with 2 bytes of padding.
	for length := range len(body) - 2 {
		if got := attribute(body[:length], 2); got != nil {
			t.Errorf("of %d bytes there is the attribute %q", length, got)
		}
	}
	if short := (received{payload: []byte{1}}); slices.Collect(keys(short)) != nil {
		t.Error("a payload without a header has attributes")
	}
}

func keys(r received) func(func(uint16) bool) {
	return func(yield func(uint16) bool) {
		for k := range r.attributes() {
			if !yield(k) {
				return
			}
		}
	}
}

func TestKeyRoundTrip(t *testing.T) {
	for _, family := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		addr, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		if family == ruleset.IPv6 {
			addr, other = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
		}
		for kind, key := range map[ruleset.Kind]ruleset.Key{
			ruleset.Addresses:   {Addr: addr},
			ruleset.Services:    {Addr: addr, Protocol: ruleset.TCP, Port: 443},
			ruleset.Ports:       {Protocol: ruleset.UDP, Port: 65535},
			ruleset.Connections: {Source: other, Addr: addr, Protocol: ruleset.SCTP, Port: 1},
			ruleset.Choices:     {ID: 1<<63 | 5, Index: 9999},
		} {
			buf := appendKey(nil, kind, key)
			if len(buf) != keyLength(family, kind) || keyType(family, kind) == 0 {
				t.Errorf("%s: key of kind %d has %d bytes", family, kind, len(buf))
			}
			if got, ok := parseKey(family, kind, buf); !ok || got != key {
				t.Errorf("%s: got %+v, want %+v", family, got, key)
			}
			if got, ok := parseKey(family, kind, buf[:len(buf)-1]); ok {
				t.Errorf("%s: a key that is cut off is %+v", family, got)
			}
		}
		to := netip.AddrPortFrom(addr, 8080)
		if got, ok := parseEndpoint(family, appendEndpoint(nil, to)); !ok || got != to {
			t.Errorf("endpoint %v, want %v", got, to)
		}
		if _, ok := parseEndpoint(family, []byte{1, 2}); ok {
			t.Error("an endpoint that is cut off is one")
		}
	}
	if keyLength(ruleset.IPv4, unknownKind) != 0 || keyType(ruleset.IPv4, unknownKind) != 0 {
		t.Error("an unknown kind has a form")
	}
}

func TestTag(t *testing.T) {
	for name, c := range map[string]struct {
		userdata []byte
		want     string
	}{
		"with comment":    {comment("abc.0", "default/web"), "abc.0"},
		"without comment": {comment("abc.0", ""), "abc.0"},
		"none":            {nil, ""},
		"other type":      {[]byte{7, 1, 'x'}, ""},
		"cut off":         {[]byte{0, 200, 'x'}, ""},
		"foreign":         {append([]byte{0, 5}, "mine\x00"...), "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tag(c.userdata); got != c.want {
				t.Errorf("tag = %q", got)
			}
		})
	}
	// nft shows comments of up to 128 bytes.
	longest := ruleset.Chain{Name: "c", Comment: ruleset.Comment(strings.Repeat("x", 500))}.Sealed(ruleset.IPv4)
	if got := comment(longest.Tag(99_999), longest.Comment); len(got) > 2+128 {
		t.Errorf("the longest comment has %d bytes", len(got)-2)
	}
}

// kinds returns the kinds of a batch's messages.
func kinds(b *batch) []uint16 {
	var found []uint16
	for r := range split(b.buf) {
		found = append(found, r.kind)
	}
	return found
}

func TestOrderOfTransaction(t *testing.T) {
	change := &ruleset.Change{
		Rebuild: true, Rebase: []string{"b"},
		Sets:   []ruleset.Set{{Name: "affinity", Kind: ruleset.Addresses, Timeout: time.Hour}},
		Chains: []ruleset.Chain{{Name: "c", Rules: []ruleset.Rule{{ruleset.Spread{Chains: []string{"x"}}}, {ruleset.Reject{}}}}},
		Empty:  []string{"e"}, DropSets: []string{"d"},
	}
	key := ruleset.Key{Addr: netip.MustParseAddr("10.0.0.1"), Protocol: ruleset.TCP, Port: 80}
	change.Element(ruleset.Slot{Set: ruleset.ServiceIPs, Key: key}, ruleset.Delta{
		Had: true, Was: ruleset.Value{Verdict: ruleset.GotoChain("a")}, Has: true, Is: ruleset.Value{Verdict: ruleset.GotoChain("c")},
	})
	got := kinds(encode(ruleset.IPv4, "t", change))
	want := []uint16{
		batchBegin, msgNewTable, msgDelTable, msgNewTable, msgDelChain, msgNewSet, msgNewChain, msgDelElement,
		msgDelRule, msgNewSet, msgNewElement, msgNewRule, msgNewRule, msgDelRule, msgNewElement, msgDelSet, batchEnd,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %d\nwant %d", got, want)
	}
	acknowledged := 0
	for r := range split(encode(ruleset.IPv4, "t", change).buf) {
		if r.flags&flagAck != 0 {
			acknowledged++
			if r.kind != msgDelSet {
				t.Errorf("the message of kind %d is acknowledged", r.kind)
			}
		}
	}
	if acknowledged != 1 {
		t.Errorf("%d messages are acknowledged", acknowledged)
	}
}

// TestManyElements has more elements than fit into one message.
func TestManyElements(t *testing.T) {
	var change ruleset.Change
	var chains []string
	for i := range 1000 {
		addr := netip.AddrFrom16([16]byte{0xfd, 14: byte(i >> 8), 15: byte(i)})
		key := ruleset.Key{Source: addr, Addr: addr, Protocol: ruleset.TCP, Port: 80}
		change.Element(ruleset.Slot{Set: ruleset.Hairpins, Key: key}, ruleset.Delta{Has: true})
		chains = append(chains, ruleset.Name("endpoint", addr.String()))
	}
	change.Chains = []ruleset.Chain{{Name: "c", Rules: []ruleset.Rule{{ruleset.Spread{Chains: chains}}}}}
	r, elements := newReader(ruleset.IPv6, "t"), 0
	r.actual.Sets[ruleset.Hairpins] = ruleset.Set{}
	for m := range split(encode(ruleset.IPv6, "t", &change).buf) {
		if m.kind == msgNewElement {
			elements++
			r.elements(m)
		}
	}
	if elements != 6 || len(r.actual.Elements) != 1000 {
		t.Errorf("%d messages have %d elements", elements, len(r.actual.Elements))
	}
}

func TestElementsAreGroupedBySet(t *testing.T) {
	at := func(set string, last byte) ruleset.Slot {
		return ruleset.Slot{Set: set, Key: ruleset.Key{Addr: netip.AddrFrom4([4]byte{10, 0, 0, last}), Protocol: ruleset.TCP, Port: 80}}
	}
	was, is := ruleset.Value{Verdict: ruleset.GotoChain("was")}, ruleset.Value{Verdict: ruleset.GotoChain("is")}
	gone, added := bySet(map[ruleset.Slot]ruleset.Delta{
		at("a", 1): {Has: true, Is: is}, at("a", 2): {Had: true, Was: was}, at("a", 3): {Had: true, Was: was, Has: true, Is: is},
		at("b", 1): {Has: true, Is: is}, at("c", 1): {Had: true, Was: was},
	})
	for _, tc := range []struct {
		name  string
		lists map[string][]ruleset.Element
		value ruleset.Value
		want  map[string][]byte // last bytes of the addresses, by set
	}{
		{"gone", gone, was, map[string][]byte{"a": {2, 3}, "c": {1}}},
		{"added", added, is, map[string][]byte{"a": {1, 3}, "b": {1}}},
	} {
		if len(tc.lists) != len(tc.want) {
			t.Errorf("%s: there are lists of %d sets: %v", tc.name, len(tc.lists), tc.lists)
		}
		for set, want := range tc.want {
			var got []byte
			for _, e := range tc.lists[set] {
				got = append(got, e.Key.Addr.As4()[3])
				if e.Set != set || e.Value != tc.value {
					t.Errorf("%s: set %s has %v", tc.name, set, e)
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) || cap(tc.lists[set]) != len(want) {
				t.Errorf("%s: set %s has %v, want %v, with room for %d", tc.name, set, got, want, cap(tc.lists[set]))
			}
		}
	}
}

// written returns what a reader makes of the messages that write a change.
func written(change *ruleset.Change) *ruleset.Actual {
	r := newReader(ruleset.IPv4, "t")
	for m := range split(encode(ruleset.IPv4, "t", change).buf) {
		switch m.kind {
		case msgNewChain:
			r.chain(m)
		case msgNewRule:
			r.rule(m)
		case msgNewSet:
			r.set(m)
		case msgNewElement:
			r.elements(m)
		}
	}
	return r.actual
}

func TestReaderUnderstandsWriter(t *testing.T) {
	chain := ruleset.Chain{
		Name: "c", Base: &ruleset.Base{Type: "filter", Hook: ruleset.Forward, Priority: -110}, Comment: "default/web",
		Rules: []ruleset.Rule{{ruleset.Reject{}}, {ruleset.Spread{Chains: []string{"a", "b"}}}},
	}.Sealed(ruleset.IPv4)
	affinity := ruleset.Set{Name: "affinity", Kind: ruleset.Addresses, Timeout: 3 * time.Hour}
	change := &ruleset.Change{Sets: append(ruleset.Shared(), affinity), Chains: []ruleset.Chain{chain}}
	values := map[ruleset.Slot]ruleset.Value{}
	for i, verdict := range []ruleset.Verdict{{Action: ruleset.Drop}, {Action: ruleset.Return}, {Action: ruleset.Jump, Chain: "a"}, ruleset.GotoChain("b")} {
		values[ruleset.Slot{Set: ruleset.AbsentNodePorts, Key: ruleset.Key{Protocol: ruleset.TCP, Port: uint16(i)}}] = ruleset.Value{Verdict: verdict}
	}
	values[ruleset.Slot{Set: ruleset.ClusterIPs, Key: ruleset.Key{Addr: netip.MustParseAddr("10.0.0.1")}}] = ruleset.Value{}
	endpoint := ruleset.Slot{Set: ruleset.EndpointsMap(5), Key: ruleset.Key{ID: 5, Index: 1}}
	values[endpoint] = ruleset.Value{To: netip.MustParseAddrPort("10.0.0.1:80")}
	for slot, value := range values {
		change.Element(slot, ruleset.Delta{Has: true, Is: value})
	}
	got := written(change)
	if !got.Exists || !chain.Intact(got.Chains["c"]) {
		t.Errorf("chain %+v", got.Chains["c"])
	}
	if len(got.Sets) != len(change.Sets) {
		t.Errorf("%d sets, want %d", len(got.Sets), len(change.Sets))
	}
	for _, set := range change.Sets {
		if got.Sets[set.Name] != set {
			t.Errorf("set %+v, want %+v", got.Sets[set.Name], set)
		}
	}
	if len(got.Elements) != len(values) {
		t.Errorf("%d elements, want %d", len(got.Elements), len(values))
	}
	for slot, value := range values {
		if got.Elements[slot] != value {
			t.Errorf("%+v: %+v, want %+v", slot, got.Elements[slot], value)
		}
	}
}

func TestReaderOfForeignObjects(t *testing.T) {
	r := newReader(ruleset.IPv4, "t")
	send := func(kind uint16, read func(received), body func(m *message)) {
		var m message
		m.begin(kind, 0, familyIPv4, 0)
		body(&m)
		m.end()
		for got := range split(m.buf) {
			read(got)
		}
	}
	send(msgNewChain, r.chain, func(m *message) { m.text(chainTable, "other"); m.text(chainName, "c") })
	send(msgNewSet, r.set, func(m *message) { m.text(setTable, "other"); m.text(setName, "s") })
	send(msgNewRule, r.rule, func(m *message) { m.text(ruleTable, "t"); m.text(ruleChain, "none") })
	if r.actual.Exists || len(r.actual.Chains)+len(r.actual.Sets) > 0 {
		t.Errorf("another table's objects are taken for ours: %+v", r.actual)
	}
	send(msgNewSet, r.set, func(m *message) {
		m.text(setTable, "t")
		m.text(setName, ruleset.ClusterIPs)
		m.u32(setFlags, 4) // An interval set.
		m.u32(setKeyType, typeIPv4)
	})
	send(msgNewSet, r.set, func(m *message) { m.text(setTable, "t"); m.text(setName, "__gb1"); m.u32(setFlags, setAnonymous) })
	if got := r.actual.Sets; len(got) != 1 || got[ruleset.ClusterIPs].Kind == ruleset.Addresses || len(r.readable()) != 0 {
		t.Errorf("sets %+v, readable %v", got, r.readable())
	}
	r.actual.Sets[ruleset.AbsentNodePorts] = ruleset.Set{}
	send(msgNewElement, r.elements, func(m *message) {
		m.text(listTable, "t")
		m.text(listSet, ruleset.AbsentNodePorts)
		m.nest(listElements, func() {
			m.nest(listElement, func() {
				m.nest(elementKey, func() { m.bytes(dataValue, appendKey(nil, ruleset.Ports, ruleset.Key{Protocol: 6, Port: 80})...) })
				m.nest(elementData, func() { m.nest(dataVerdict, func() { m.u32(verdictCode, 1) }) }) // Accept.
			})
			m.nest(listElement, func() { m.nest(elementKey, func() { m.bytes(dataValue, 1) }) })
		})
	})
	for slot, value := range r.actual.Elements {
		if slot.Key.Port != 80 || value.Verdict == (ruleset.Verdict{}) || value.Verdict == (ruleset.Verdict{Action: ruleset.Drop}) {
			t.Errorf("%+v: %+v", slot, value)
		}
	}
	if len(r.actual.Elements) != 1 {
		t.Errorf("elements %+v", r.actual.Elements)
	}
}

func TestInterfaceNamesFit(t *testing.T) {
	b := newBatch(ruleset.IPv4, "t")
	b.expression(ruleset.From{Interface: strings.Repeat("x", 100)}, 0)
	if !bytes.Contains(b.buf, append(bytes.Repeat([]byte("x"), 15), 0)) || bytes.Contains(b.buf, bytes.Repeat([]byte("x"), 16)) {
		t.Error("a long interface name is not cut to the kernel's 15 bytes")
	}
}

// FuzzReader reads what the kernel would never send.
func FuzzReader(f *testing.F) {
	chain := ruleset.Chain{Name: "c", Rules: []ruleset.Rule{{ruleset.Reject{}}}}.Sealed(ruleset.IPv4)
	change := &ruleset.Change{Sets: ruleset.Shared()[:2], Chains: []ruleset.Chain{chain}}
	f.Add(encode(ruleset.IPv4, "t", change).buf)
	f.Add(binary.NativeEndian.AppendUint32(nil, 16))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		r := newReader(ruleset.IPv4, "t")
		for m := range split(datagram) {
			r.chain(m)
			r.rule(m)
			r.set(m)
			r.elements(m)
			if err := answered(m); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
		}
		for _, set := range r.readable() {
			if r.actual.Sets[set].Kind == unknownKind {
				t.Errorf("the elements of %q are read although its form is unknown", set)
			}
		}
	})
}
