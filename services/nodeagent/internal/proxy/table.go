package proxy

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/ledger"
)

const (
	// maxBatch is the most objects that several changes have in one transaction together.
	maxBatch = 4000
	// unusedFor is how long an emptied chain stays; see ruleset.Change.Empty.
	unusedFor = time.Second
	// repairPeriod is the least time between two repairs after failures.
	repairPeriod = 5 * time.Second
)

// table keeps the kernel's table of one family in step with a ledger. It is not safe for concurrent
// use.
type table struct {
	family  ruleset.Family
	name    string
	kernel  Netfilter
	wanted  *ledger.Ledger
	logger  *slog.Logger
	metrics *metrics
	// unused has the emptied chains, with the time at which they were emptied.
	unused map[string]time.Time
	// broken is true while the kernel may differ from the ledger.
	broken                  bool
	lastRepair, lastRebuild time.Time
	// noLocal has the sums of the units' LacksInternal and LacksExternal.
	noInternal, noExternal int
}

func newTable(f ruleset.Family, name string, kernel Netfilter, logger *slog.Logger, m *metrics) *table {
	return &table{
		family: f, name: name, kernel: kernel, wanted: ledger.New(), logger: logger.With("family", f.String()), metrics: m,
		unused: make(map[string]time.Time), broken: true,
	}
}

// apply writes changes, as many in one transaction as fit. If the kernel refuses a transaction, each
// of its changes is written by itself, so that one at fault holds up no other. Then the table is
// broken until a repair.
func (t *table) apply(changes []*ruleset.Change) error {
	var failed error
	for len(changes) > 0 {
		n, size := 1, changes[0].Size()
		for n < len(changes) && size+changes[n].Size() <= maxBatch {
			size += changes[n].Size()
			n++
		}
		batch := changes[0] // It may be the whole table, of which a copy would be too much.
		if n > 1 {
			batch = &ruleset.Change{}
			for _, change := range changes[:n] {
				batch.Merge(change)
			}
		}
		if err := t.write(batch); err != nil && n > 1 {
			for _, change := range changes[:n] {
				failed = firstError(failed, t.write(change))
			}
		} else {
			failed = firstError(failed, err)
		}
		changes = changes[n:]
	}
	if failed != nil {
		t.broken = true
	}
	return failed
}

// firstError keeps one error: a broken table fails every change the same way.
func firstError(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

func (t *table) write(change *ruleset.Change) error {
	if change.IsEmpty() {
		return nil
	}
	if err := t.kernel.Apply(t.family, t.name, change); err != nil {
		t.metrics.failures.WithLabelValues(t.family.String()).Inc()
		return fmt.Errorf("writing %s rules: %w", t.family, err)
	}
	if change.Rebuild {
		clear(t.unused)
	}
	for _, name := range change.Empty {
		t.unused[name] = time.Now()
	}
	for i := range change.Chains {
		delete(t.unused, change.Chains[i].Name)
	}
	return nil
}

// repair reads the kernel's table and writes what differs. If the kernel refuses that, too, it
// rebuilds the table, at most once an hour.
func (t *table) repair() error {
	t.lastRepair = time.Now()
	actual, err := t.kernel.Read(t.family, t.name)
	if err != nil {
		return fmt.Errorf("reading %s rules: %w", t.family, err)
	}
	changes := t.wanted.Repair(actual)
	// What is merely unused is no damage.
	if unused := func(c *ruleset.Change) bool { return len(c.Empty) != c.Size() }; actual.Exists && slices.ContainsFunc(changes, unused) {
		t.logger.Info("the kernel has other rules than it should; they are repaired", "changes", len(changes))
	}
	if err = t.apply(changes); err == nil {
		t.broken = false
		return nil
	}
	if !t.lastRebuild.IsZero() && time.Since(t.lastRebuild) < defaultSyncPeriod {
		return err
	}
	t.lastRebuild = time.Now()
	t.logger.Error("the rules cannot be repaired; the table is rebuilt", "err", err)
	if err = t.apply(t.wanted.Repair(&ruleset.Actual{})); err == nil {
		t.broken = false
	}
	return err
}

// repairDue reports whether a broken table may be repaired now.
func (t *table) repairDue() bool { return t.broken && time.Since(t.lastRepair) >= repairPeriod }

// deleteUnused deletes the chains that have been unused for long enough.
func (t *table) deleteUnused() {
	var names []string
	for name, since := range t.unused {
		if time.Since(since) >= unusedFor {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	if t.deleteChains(names) == nil {
		return
	}
	for _, name := range names {
		if err := t.deleteChains([]string{name}); err != nil {
			// It is gone, or still in use: the next repair tells.
			t.metrics.cleanup.WithLabelValues(t.family.String()).Inc()
			t.logger.Debug("an unused chain stays", "chain", name, "err", err)
			delete(t.unused, name)
		}
	}
}

func (t *table) deleteChains(names []string) error {
	if err := t.kernel.DeleteChains(t.family, t.name, names); err != nil {
		return err
	}
	for _, name := range names {
		delete(t.unused, name)
	}
	return nil
}

// nextDeletion returns when deleteUnused has something to do; never if it reports false.
func (t *table) nextDeletion() (time.Time, bool) {
	if len(t.unused) == 0 {
		return time.Time{}, false
	}
	return slices.MinFunc(slices.Collect(maps.Values(t.unused)), time.Time.Compare).Add(unusedFor), true
}

// put replaces the unit of a Service and returns the difference and the unit before, if any.
func (t *table) put(unit *ruleset.Unit, exists bool) (difference *ruleset.Change, before *ruleset.Unit) {
	before = t.wanted.Unit(unit.Owner)
	if before != nil {
		t.noInternal -= before.LacksInternal
		t.noExternal -= before.LacksExternal
	}
	if !exists {
		return t.wanted.Remove(unit.Owner), before
	}
	t.noInternal += unit.LacksInternal
	t.noExternal += unit.LacksExternal
	return t.wanted.Put(unit), before
}
