package schedule

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is a schedule as a list, for comparison.
type model struct {
	items  []waiting
	number int
}

type waiting struct {
	item, number int
	at           time.Duration
}

func (m *model) sort() {
	slices.SortFunc(m.items, func(a, b waiting) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.number, b.number)) })
}

func (m *model) find(item int) int {
	return slices.IndexFunc(m.items, func(w waiting) bool { return w.item == item })
}

func (m *model) insert(item int, at time.Duration, r Rule) (taken bool) {
	i := m.find(item)
	switch {
	case i < 0:
		m.number++
		m.items = append(m.items, waiting{item, m.number, at})
	case r == KeepOld, r == KeepEarlier && at >= m.items[i].at:
		return false
	default:
		m.items[i].at = at
	}
	m.sort()
	return true
}

func (m *model) remove(item int) (waited, head bool) {
	i := m.find(item)
	if i < 0 {
		return false, false
	}
	m.items = slices.Delete(m.items, i, i+1)
	return true, i == 0
}

// TestScheduleSameAsItsModel compares random operations with those of a sorted list. The items are
// so many that the memory grows by several pieces, and the times so few that many are equal.
func TestScheduleSameAsItsModel(t *testing.T) {
	start := time.Unix(0, 0)
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, m := New[int](start), &model{}
		keys := []int{4, 40, 2000}[seed%3]
		for step := range 4000 {
			now := time.Duration(step / 100)
			item := random.IntN(keys)
			switch op := random.IntN(10); {
			case op < 7:
				delay, rule := time.Duration(random.IntN(30)), Rule(random.IntN(3))
				var first int
				if len(m.items) > 0 {
					first = m.items[0].item
				}
				empty, waits := len(m.items) == 0, m.find(item) >= 0
				want := m.insert(item, now+delay, rule)
				taken, head := s.Insert(item, start.Add(now), delay, rule)
				// The timer must be reset for a new first item, and for a first item with a new time.
				wantHead := want && (empty || m.items[0].item == item || waits && first == item)
				if taken != want || head != wantHead {
					t.Fatalf("seed %d, step %d: inserted %d: %v, %v; want %v, %v", seed, step, item, taken, head, want, wantHead)
				}
			case op < 9:
				waited, head := s.Remove(item)
				if wantWaited, wantHead := m.remove(item); waited != wantWaited || head != wantHead {
					t.Fatalf("seed %d, step %d: removed %d: %v, %v; want %v, %v", seed, step, item, waited, head, wantWaited, wantHead)
				}
			case len(m.items) > 0:
				next := m.items[0]
				if wait := s.Wait(start.Add(now)); wait != next.at-now {
					t.Fatalf("seed %d, step %d: the next item is due in %v, want %v", seed, step, wait, next.at-now)
				}
				if got := s.Pop(); got != next.item {
					t.Fatalf("seed %d, step %d: popped %d, want %d", seed, step, got, next.item)
				}
				m.items = m.items[1:]
			}
			if s.Len() != len(m.items) || s.Has(item) != (m.find(item) >= 0) {
				t.Fatalf("seed %d, step %d: %d items wait, %d among them: %v; want %v", seed, step, s.Len(), item, s.Has(item), m.items)
			}
		}
	}
}

// TestLongDelays checks that a time too far away to be counted is the last one, not one in the past.
func TestLongDelays(t *testing.T) {
	start := time.Now()
	s := New[string](start)
	s.Insert("never", start.Add(time.Hour), math.MaxInt64, KeepEarlier)
	s.Insert("soon", start.Add(time.Hour), time.Minute, KeepEarlier)
	if first := s.Pop(); first != "soon" {
		t.Errorf("first is %q", first)
	}
	if wait := s.Wait(start.Add(time.Hour)); wait != math.MaxInt64-time.Hour {
		t.Errorf("the item with the longest delay is due in %v", wait)
	}
}

// TestMemory checks that a schedule keeps no item alive that has left it, releases the memory of a
// flood, and keeps enough for the next items.
func TestMemory(t *testing.T) {
	s, now := New[*int](time.Now()), time.Now()
	fill := func(n int) {
		for i := range n {
			s.Insert(&i, now, time.Duration(i), KeepEarlier)
		}
	}
	fill(2 * chunkSize)
	for range chunkSize {
		s.Pop()
	}
	alive := 0
	for _, chunk := range s.chunks {
		for _, e := range chunk {
			if e.item != nil {
				alive++
			}
		}
	}
	if alive != s.Len() || alive != chunkSize {
		t.Errorf("%d items are kept alive, and %d wait", alive, s.Len())
	}
	for s.Len() > 0 {
		s.Pop()
	}
	if len(s.chunks) != 2 {
		t.Errorf("%d pieces of memory are kept, want both", len(s.chunks))
	}
	fill((keptChunks + 1) * chunkSize)
	for s.Len() > 0 {
		s.Pop()
	}
	if len(s.chunks) != 0 || cap(s.heap) != 0 {
		t.Errorf("after a flood %d pieces of memory and %d places are kept", len(s.chunks), cap(s.heap))
	}
}
