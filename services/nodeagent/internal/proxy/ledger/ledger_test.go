package ledger_test

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/ledger"
)

func owner(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

func addr(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, last}) }

func front(last byte) ruleset.Frontend {
	return ruleset.Frontend{Addr: addr(last), Protocol: ruleset.TCP, Port: 80}
}

func chain(name string, endpoints ...byte) ruleset.Chain {
	var to []netip.AddrPort
	for _, last := range endpoints {
		to = append(to, netip.AddrPortFrom(addr(last), 80))
	}
	rule := ruleset.Rule{ruleset.Translate{To: to, ID: ruleset.ID(name)}}
	return ruleset.Chain{Name: name, Rules: []ruleset.Rule{rule}}.Sealed(ruleset.IPv4)
}

// unit returns a Service that dispatches one frontend to its chain.
func unit(name string, cluster byte, endpoints ...byte) *ruleset.Unit {
	u := &ruleset.Unit{
		Owner: owner(name), ClusterIPs: []netip.Addr{addr(cluster)},
		Claims: []ruleset.Claim{{Frontend: front(cluster), Absent: ruleset.Verdict{Action: ruleset.Drop}}},
	}
	if len(endpoints) > 0 {
		u.Chains = []ruleset.Chain{chain(name, endpoints...)}
		u.Claims[0] = ruleset.Claim{Frontend: front(cluster), Dispatch: ruleset.GotoChain(name)}
	}
	return u
}

// kernel applies changes as the kernel does, and fails the test where the kernel would refuse.
type kernel struct {
	t      *testing.T
	actual ruleset.Actual
}

func newKernel(t *testing.T) *kernel {
	return &kernel{t, ruleset.Actual{
		Chains: make(map[string]ruleset.ActualChain), Sets: make(map[string]ruleset.Set), Elements: make(map[ruleset.Slot]ruleset.Value),
	}}
}

func (k *kernel) apply(changes ...*ruleset.Change) {
	k.t.Helper()
	for _, c := range changes {
		if c.Rebuild {
			*k = *newKernel(k.t)
		}
		k.actual.Exists = true
		for _, set := range c.Sets {
			k.actual.Sets[set.Name] = set
		}
		for i := range c.Chains {
			tags := []string{}
			for at := range c.Chains[i].Rules {
				tags = append(tags, c.Chains[i].Tag(at))
			}
			k.actual.Chains[c.Chains[i].Name] = ruleset.ActualChain{Base: c.Chains[i].Base, Tags: tags}
		}
		for slot, delta := range c.Elements {
			was, had := k.actual.Elements[slot]
			if had != delta.Had || had && was != delta.Was {
				k.t.Fatalf("at %v the change expects %v, %v, but there is %v, %v", slot, delta.Had, delta.Was, had, was)
			}
			delete(k.actual.Elements, slot)
			if delta.Has {
				if chain := delta.Is.Verdict.Chain; chain != "" {
					if _, ok := k.actual.Chains[chain]; !ok {
						k.t.Fatalf("%v leads to the missing chain %s", slot, chain)
					}
				}
				k.actual.Elements[slot] = delta.Is
			}
		}
		for _, name := range c.Empty {
			k.actual.Chains[name] = ruleset.ActualChain{}
		}
		for _, name := range c.DropSets {
			delete(k.actual.Sets, name)
		}
	}
}

// forget deletes the chains that a repair would empty.
func (k *kernel) forget(l *ledger.Ledger) {
	for _, left := range l.Repair(&k.actual) {
		for _, name := range left.Empty {
			delete(k.actual.Chains, name)
		}
	}
}

func started(t *testing.T) (*ledger.Ledger, *kernel) {
	l, k := ledger.New(), newKernel(t)
	l.SetSkeleton(ruleset.Shared(), []ruleset.Chain{chain("base", 1)}, nil)
	k.apply(l.Repair(&k.actual)...)
	return l, k
}

func dispatch(k *kernel, last byte) string {
	key := ruleset.Key{Addr: addr(last), Protocol: ruleset.TCP, Port: 80}
	return k.actual.Elements[ruleset.Slot{Set: ruleset.ServiceIPs, Key: key}].Verdict.Chain
}

func TestChangeIsMinimal(t *testing.T) {
	l, k := started(t)
	k.apply(l.Put(unit("a", 1, 11, 12, 13)), l.Put(unit("b", 2, 21)))
	change := l.Put(unit("a", 1, 11, 14, 13))
	if len(change.Elements) != 1 || change.Size() != 1 {
		t.Errorf("to replace an endpoint: %+v", change)
	}
	k.apply(change)
	if change = l.Put(unit("a", 1, 11, 14, 13)); !change.IsEmpty() {
		t.Errorf("to change nothing: %+v", change)
	}
	change = l.Put(unit("a", 1, 11, 14))
	if len(change.Elements) != 1 || len(change.Chains) != 1 {
		t.Errorf("to lose an endpoint: %+v", change)
	}
	k.apply(change)
	// The last endpoint goes: the frontend is refused, and the chain is not used any more.
	change = l.Put(unit("a", 1))
	if len(change.Empty) != 1 || len(change.Elements) != 4 {
		t.Errorf("to lose all endpoints: %+v", change)
	}
	k.apply(change, l.Remove(owner("a")), l.Remove(owner("a")))
	if dispatch(k, 1) != "" || dispatch(k, 2) != "b" {
		t.Errorf("frontends lead to %q and %q", dispatch(k, 1), dispatch(k, 2))
	}
}

func TestSharedElements(t *testing.T) {
	l, k := started(t)
	hairpin := ruleset.Key{Source: addr(11), Addr: addr(11), Protocol: ruleset.TCP, Port: 80}
	one, two := unit("a", 1, 11), unit("b", 2, 11)
	one.Hairpins, two.Hairpins = []ruleset.Key{hairpin, hairpin}, []ruleset.Key{hairpin}
	k.apply(l.Put(one), l.Put(two), l.Remove(owner("a")))
	slot := ruleset.Slot{Set: ruleset.Hairpins, Key: hairpin}
	if _, ok := k.actual.Elements[slot]; !ok {
		t.Error("an element that another Service still needs is gone")
	}
	k.apply(l.Remove(owner("b")))
	if _, ok := k.actual.Elements[slot]; ok {
		t.Error("an element that nobody needs stays")
	}
}

func TestBestClaimWins(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	with := func(name string, rank ruleset.Rank, age time.Duration) *ruleset.Unit {
		u := unit(name, 9, 11)
		u.Created, u.Claims[0].Rank, u.ClusterIPs = now.Add(-age), rank, nil
		return u
	}
	l, k := started(t)
	for _, step := range []struct {
		change *ruleset.Change
		want   string
	}{
		{l.Put(with("external", ruleset.External, time.Hour)), "external"},
		{l.Put(with("balanced", ruleset.LoadBalanced, time.Minute)), "balanced"},
		{l.Put(with("z-young", ruleset.Allocated, time.Second)), "z-young"},
		{l.Put(with("old", ruleset.Allocated, time.Minute)), "old"},
		{l.Put(with("b-same", ruleset.Allocated, time.Minute)), "b-same"},
		{l.Remove(owner("b-same")), "old"},
		{l.Remove(owner("old")), "z-young"},
		{l.Remove(owner("z-young")), "balanced"},
		{l.Remove(owner("balanced")), "external"},
		{l.Remove(owner("external")), ""},
	} {
		k.apply(step.change)
		if got := dispatch(k, 9); got != step.want {
			t.Fatalf("the frontend leads to %q, want %q", got, step.want)
		}
	}
}

func TestSkeletonChange(t *testing.T) {
	l, k := started(t)
	ips := ruleset.Set{Name: ruleset.NodePortIPs, Kind: ruleset.Addresses}
	element := ruleset.Element{Slot: ruleset.Slot{Set: ips.Name, Key: ruleset.Key{Addr: addr(1)}}}
	k.apply(l.SetSkeleton(append(ruleset.Shared(), ips), []ruleset.Chain{chain("base", 1)}, []ruleset.Element{element}))
	if _, ok := k.actual.Elements[element.Slot]; !ok {
		t.Error("the element is missing")
	}
	change := l.SetSkeleton(ruleset.Shared(), []ruleset.Chain{chain("base", 2, 3)}, nil)
	if len(change.DropSets) != 1 || len(change.Chains) != 1 || len(change.Elements) != 2 {
		t.Errorf("change %+v", change)
	}
}

func TestMergedChangesAreOne(t *testing.T) {
	l, k := started(t)
	var all ruleset.Change
	// The frontend goes from one to the other, which is in the same transaction.
	all.Merge(l.Put(unit("a", 1, 11)))
	all.Merge(l.Put(unit("b", 1, 12)))
	all.Merge(l.Put(unit("c", 3, 13)))
	k.apply(&all)
	all = ruleset.Change{}
	all.Merge(l.Remove(owner("a")))
	all.Merge(l.Put(unit("d", 1, 14)))
	k.apply(&all)
	k.forget(l)
	if left := l.Repair(&k.actual); len(left) != 0 || dispatch(k, 1) != "b" {
		t.Errorf("left %+v, the frontend leads to %q", left, dispatch(k, 1))
	}
}

// TestRepair damages the kernel at random, and changes Services at random, and expects that the
// kernel always ends with what is wanted.
func TestRepair(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l, k := started(t)
	for range 400 {
		name := string(rune('a' + random.IntN(6)))
		switch random.IntN(5) {
		case 0:
			k.apply(l.Remove(owner(name)))
		case 1, 2:
			var endpoints []byte
			for range random.IntN(4) {
				endpoints = append(endpoints, byte(10+random.IntN(100)))
			}
			k.apply(l.Put(unit(name, byte(random.IntN(4)), endpoints...)))
		case 3:
			damage(random, &k.actual)
			k.apply(l.Repair(&k.actual)...)
		}
		k.forget(l)
		if left := l.Repair(&k.actual); len(left) != 0 {
			t.Fatalf("left: %+v", left[0])
		}
		fresh := newKernel(t)
		fresh.apply(l.Repair(&fresh.actual)...)
		if diff := cmp.Diff(fresh.actual, k.actual, cmp.AllowUnexported(netip.Addr{}, netip.AddrPort{}), cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("changes and a rebuilding lead to different tables (-rebuilt +changed):\n%s", diff)
		}
	}
}

func damage(random *rand.Rand, actual *ruleset.Actual) {
	switch random.IntN(6) {
	case 0:
		actual.Exists = false
	case 1:
		for slot := range actual.Elements {
			delete(actual.Elements, slot)
			return
		}
	case 2:
		for slot := range actual.Elements {
			actual.Elements[slot] = ruleset.Value{Verdict: ruleset.Verdict{Action: ruleset.Drop}}
			return
		}
	case 3:
		for name := range maps.Keys(actual.Chains) {
			actual.Chains[name] = ruleset.ActualChain{Tags: []string{"mine." + strconv.Itoa(random.IntN(9))}}
			return
		}
	case 4:
		actual.Sets["mine"], actual.Chains["mine"] = ruleset.Set{Name: "mine"}, ruleset.ActualChain{}
	case 5:
		actual.Sets[ruleset.ClusterIPs] = ruleset.Set{Name: ruleset.ClusterIPs, Kind: ruleset.Ports}
	}
}
