package resourcequota

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// settleTime is how long after a charge the object may still appear: the apiserver ends every
// request within a minute.
const settleTime = 70 * time.Second

// ledger records, for one quota, the charges for objects that have not appeared yet.
//
// The apiserver charges a quota before it writes the object. A count of the objects, however fresh,
// may therefore lack what was just charged. If the quota were set to that count, more objects would
// pass than it allows. So each rise of the quota's usage becomes an entry. An object that appears
// deducts its usage from the oldest entries, and so does a charge that is given back because the
// object was refused. An entry whose object has not appeared within settleTime is dropped: that
// object never will.
//
// Deducting from the oldest entries is safe without knowing which charge was for which object: what
// is left is never less, and never older, than what is still to come.
type ledger struct {
	// quota is the UID of the quota.
	quota types.UID

	mu sync.Mutex
	// last is the quota's usage when it was last seen or written.
	last    corev1.ResourceList
	entries map[corev1.ResourceName][]entry
	// known are the objects that have appeared and whose deletion has not been reported.
	known map[types.UID]struct{}
	// gone are the objects that appeared and were deleted between two counts.
	gone map[types.UID]object
}

type entry struct {
	at     time.Time
	amount resource.Quantity
}

// object is a counted object: its UID, what was charged for it at its creation, and a revision of
// it. The charge was written before the object, so a quota at that revision shows it.
type object struct {
	uid      types.UID
	charged  corev1.ResourceList
	revision int64
}

// deleted records that an object is gone. It calls gone for the details of an unknown object.
func (l *ledger) deleted(uid types.UID, gone func() object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.known[uid]; known {
		delete(l.known, uid)
		return
	}
	if l.last != nil {
		l.gone[uid] = gone()
	}
}

// needs returns the revision that the quota must have reached to show the charges for all objects
// that appeared, or came and went, since the last count.
func (l *ledger) needs(objects []object) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var newest int64
	for _, obj := range l.gone {
		newest = max(newest, obj.revision)
	}
	for _, obj := range objects {
		if _, known := l.known[obj.uid]; !known {
			newest = max(newest, obj.revision)
		}
	}
	return newest
}

// balance enters the quota's usage, and the existing objects with their total usage. It returns by
// how much the quota's usage must exceed that total, to cover charges for objects that may still
// come. The quota shows everything that was charged up to the revision shown. settled says that the
// count shows everything written up to now; only then are old charges dropped.
func (l *ledger) balance(used, counted corev1.ResourceList, objects []object, shown int64, now time.Time,
	settled bool) corev1.ResourceList {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.open(used, counted, objects, now)
	} else {
		l.enter(used, counted, now)
		l.appear(objects, shown)
	}
	l.last = used.DeepCopy()
	pending := corev1.ResourceList{}
	for name, entries := range l.entries {
		if settled {
			for len(entries) > 0 && now.Sub(entries[0].at) >= settleTime {
				entries = entries[1:]
			}
			l.entries[name] = entries
		}
		var sum resource.Quantity
		for _, e := range entries {
			sum.Add(e.amount)
		}
		pending[name] = sum
	}
	return pending
}

// open begins a ledger: any usage beyond that of the existing objects may be for objects still to
// come.
func (l *ledger) open(used, counted corev1.ResourceList, objects []object, now time.Time) {
	l.entries = map[corev1.ResourceName][]entry{}
	l.known, l.gone = map[types.UID]struct{}{}, map[types.UID]object{}
	for name, value := range used {
		l.openName(name, value, counted[name], now)
	}
	for _, obj := range objects {
		l.known[obj.uid] = struct{}{}
	}
}

func (l *ledger) openName(name corev1.ResourceName, used, counted resource.Quantity, now time.Time) {
	rest := used.DeepCopy()
	rest.Sub(counted)
	if rest.Sign() > 0 {
		l.entries[name] = []entry{{at: now, amount: rest}}
	}
}

// enter records how other writers have changed the quota's usage since it was last seen.
func (l *ledger) enter(used, counted corev1.ResourceList, now time.Time) {
	for name := range l.entries {
		if _, there := used[name]; !there {
			delete(l.entries, name)
		}
	}
	for name, value := range used {
		last, there := l.last[name]
		if !there {
			l.openName(name, value, counted[name], now)
			continue
		}
		rise := value.DeepCopy()
		rise.Sub(last)
		switch rise.Sign() {
		case 1:
			l.entries[name] = append(l.entries[name], entry{at: now, amount: rise})
		case -1: // Charges were given back.
			rise.Neg()
			l.deduct(name, rise)
		}
	}
}

// appear deducts from the entries the charges for objects that were not seen before. Entries do not
// yet include charges made after the revision shown.
func (l *ledger) appear(objects []object, shown int64) {
	for _, obj := range objects {
		if obj.revision > shown {
			continue
		}
		_, told := l.gone[obj.uid]
		delete(l.gone, obj.uid)
		if _, known := l.known[obj.uid]; known {
			continue
		}
		// If the deletion was reported since the count, it will not be reported again.
		if !told {
			l.known[obj.uid] = struct{}{}
		}
		l.deductAll(obj.charged)
	}
	for uid, obj := range l.gone {
		if obj.revision <= shown {
			l.deductAll(obj.charged)
			delete(l.gone, uid)
		}
	}
}

func (l *ledger) deductAll(charged corev1.ResourceList) {
	for name, value := range charged {
		l.deduct(name, value)
	}
}

func (l *ledger) deduct(name corev1.ResourceName, amount resource.Quantity) {
	amount = amount.DeepCopy()
	entries := l.entries[name]
	for len(entries) > 0 && amount.Sign() > 0 {
		if entries[0].amount.Cmp(amount) > 0 {
			entries[0].amount.Sub(amount)
			break
		}
		amount.Sub(entries[0].amount)
		entries = entries[1:]
	}
	if l.entries[name] != nil {
		l.entries[name] = entries
	}
}

// wrote records the usage that this controller has written to the quota.
func (l *ledger) wrote(used corev1.ResourceList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = used.DeepCopy()
}

// lose starts anew after a write with an unknown outcome.
func (l *ledger) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.entries, l.known, l.gone = nil, nil, nil, nil
}

// due returns when the oldest entry may be dropped; the zero time if there is none.
func (l *ledger) due() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var due time.Time
	for _, entries := range l.entries {
		if len(entries) == 0 {
			continue
		}
		if at := entries[0].at.Add(settleTime); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due
}
