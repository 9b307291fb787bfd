package proxy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/conntrack"
)

// fakeKernel holds tables in memory. It refuses what the kernel would refuse, and what a test wants.
type fakeKernel struct {
	mu     sync.Mutex
	tables map[ruleset.Family]*ruleset.Actual
	// refuse makes it refuse transactions with a chain of this comment.
	refuse string
	unseen bool
	// writes counts the transactions, reads the readings of a table.
	writes, reads, closed int
	ended                 int
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{tables: make(map[ruleset.Family]*ruleset.Actual)}
}

func empty() *ruleset.Actual {
	return &ruleset.Actual{
		Chains: make(map[string]ruleset.ActualChain), Sets: make(map[string]ruleset.Set), Elements: make(map[ruleset.Slot]ruleset.Value),
	}
}

func (k *fakeKernel) Apply(family ruleset.Family, _ string, c *ruleset.Change) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes++
	for i := range c.Chains {
		if k.refuse != "" && strings.HasPrefix(c.Chains[i].Comment, k.refuse) {
			return errors.New("the test refuses this service")
		}
	}
	now := empty()
	if was := k.tables[family]; was != nil && !c.Rebuild {
		now.Chains, now.Sets, now.Elements = maps.Clone(was.Chains), maps.Clone(was.Sets), maps.Clone(was.Elements)
	}
	now.Exists = true
	for _, set := range c.Sets {
		now.Sets[set.Name] = set
	}
	for i := range c.Chains {
		var tags []string
		for at := range c.Chains[i].Rules {
			tags = append(tags, c.Chains[i].Tag(at))
		}
		now.Chains[c.Chains[i].Name] = ruleset.ActualChain{Base: c.Chains[i].Base, Tags: tags}
	}
	for _, name := range c.Empty {
		if _, ok := now.Chains[name]; !ok {
			return fmt.Errorf("there is no chain %s to empty", name)
		}
		now.Chains[name] = ruleset.ActualChain{}
	}
	for slot, delta := range c.Elements {
		if was, had := now.Elements[slot]; had != delta.Had || was != delta.Was {
			return fmt.Errorf("at %v there is %v, %v", slot, had, was)
		}
		delete(now.Elements, slot)
		if delta.Has {
			now.Elements[slot] = delta.Is
		}
	}
	for _, name := range c.DropSets {
		delete(now.Sets, name)
	}
	k.tables[family] = now
	return nil
}

func (k *fakeKernel) DeleteChains(family ruleset.Family, _ string, names []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		if _, ok := k.tables[family].Chains[name]; !ok {
			return fmt.Errorf("there is no chain %s to delete", name)
		}
		delete(k.tables[family].Chains, name)
	}
	return nil
}

func (k *fakeKernel) Read(family ruleset.Family, _ string) (*ruleset.Actual, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	if k.tables[family] == nil {
		return empty(), nil
	}
	is := *k.tables[family]
	is.Chains, is.Sets, is.Elements = maps.Clone(is.Chains), maps.Clone(is.Sets), maps.Clone(is.Elements)
	return &is, nil
}

func (k *fakeKernel) Unseen() (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unseen, nil
}

func (k *fakeKernel) MarkSeen() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unseen = false
	return nil
}

func (k *fakeKernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed++
	return nil
}

// End implements Flows.
func (k *fakeKernel) End(ruleset.Family, *conntrack.Stale) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended++
	return 1, nil
}

// damage changes a table behind the proxy's back.
func (k *fakeKernel) damage(family ruleset.Family, f func(*ruleset.Actual)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k.tables[family])
	k.unseen = true
}

// counts returns the numbers of transactions and of searches for stale connections.
func (k *fakeKernel) counts() (writes, ended int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes, k.ended
}

// endpoints returns the endpoints that any Service of a family has, sorted.
func (k *fakeKernel) endpoints(family ruleset.Family) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []string
	if t := k.tables[family]; t != nil {
		for slot, value := range t.Elements {
			if ruleset.HasEndpoints(slot.Set) {
				found = append(found, value.To.String())
			}
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}
