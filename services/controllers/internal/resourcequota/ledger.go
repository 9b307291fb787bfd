package resourcequota

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// settleTime is how long after a quota was charged the object may still appear: the apiserver
// ends every request within a minute.
const settleTime = 70 * time.Second

// ledger knows, for one quota, what has been charged for objects that have not appeared yet.
//
// The apiserver charges a quota before it writes the object, so that a count of the objects,
// however fresh, may lack what was just charged; were the quota set to that count, more objects
// would pass than it allows. So each rise of what the quota says is used is entered; an object
// that appears, or was refused, takes its usage from the oldest entries; and an entry whose
// object has not come in settleTime is dropped: that object never will.
//
// Taking from the oldest is safe without knowing which charge was for which object: what is
// left is never less, and never older, than what is still to come.
type ledger struct {
	// quota is the uid of the quota.
	quota types.UID

	mu sync.Mutex
	// last is what the quota said was used when it was last seen or written.
	last    corev1.ResourceList
	entries map[corev1.ResourceName][]entry
	// known are the objects that have appeared and whose deletion has not been told.
	known map[types.UID]struct{}
	// gone are those that came and went between two counts.
	gone map[types.UID]object
}

type entry struct {
	at     time.Time
	amount resource.Quantity
}

// object is one that was counted: who it is, what was charged for it when it came, and a revision
// of it. A quota that is as new shows that charge, which was written before the object.
type object struct {
	uid      types.UID
	charged  corev1.ResourceList
	revision int64
}

// deleted is told of each object that is gone.
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

// needs is the revision that a quota must be of to show what those were charged that have
// appeared, or came and went, since the last count.
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

// balance enters what a quota says is used, and which objects there are, with how much they use
// together, and gives how much more than that the quota must say is used, since it was charged
// for what may still come. The quota shows all that was charged up to the revision shown. settled says that the count shows all that was written up to now:
// only then are old charges dropped.
func (l *ledger) balance(used, counted corev1.ResourceList, objects []object, shown int64, now time.Time, settled bool) corev1.ResourceList {
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

// open begins: what the quota says is used and no object uses may all be for what is to come.
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

// enter notes how the quota's usage has changed by others since it was last seen.
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
			l.take(name, rise)
		}
	}
}

// appear takes from the entries what objects were charged that had not been seen before. What
// was charged after the revision shown is not among them yet.
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
		// One whose deletion was told since it was counted will not be told of again.
		if !told {
			l.known[obj.uid] = struct{}{}
		}
		l.takeAll(obj.charged)
	}
	for uid, obj := range l.gone {
		if obj.revision <= shown {
			l.takeAll(obj.charged)
			delete(l.gone, uid)
		}
	}
}

func (l *ledger) takeAll(charged corev1.ResourceList) {
	for name, value := range charged {
		l.take(name, value)
	}
}

func (l *ledger) take(name corev1.ResourceName, amount resource.Quantity) {
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

// wrote notes what we have made the quota say.
func (l *ledger) wrote(used corev1.ResourceList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = used.DeepCopy()
}

// lose begins anew, after a write of which nobody knows whether it was done.
func (l *ledger) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.entries, l.known, l.gone = nil, nil, nil, nil
}

// due is when the oldest entry may be dropped; the zero time if there is none.
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
