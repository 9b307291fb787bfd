package workqueue

import "time"

// schedule is a heap of items by the time when they are due; those of one instant keep the
// order in which they came.
type schedule[T comparable] struct {
	heap   []*due[T]
	byItem map[T]*due[T]
	// inserted numbers the insertions.
	inserted uint64
}

type due[T comparable] struct {
	item T
	at   time.Time
	// number breaks ties; index is the place in the heap.
	number uint64
	index  int
}

func newSchedule[T comparable]() *schedule[T] {
	return &schedule[T]{byItem: map[T]*due[T]{}}
}

func (s *schedule[T]) len() int { return len(s.heap) }

// head is when the first item is due; there must be one.
func (s *schedule[T]) head() time.Time { return s.heap[0].at }

// insert schedules item, or moves it forward if it waits already; a later time than the one
// it has changes nothing. It says whether item is now the first.
func (s *schedule[T]) insert(item T, at time.Time) (first bool) {
	entry := s.byItem[item]
	switch {
	case entry == nil:
		s.inserted++
		entry = &due[T]{item: item, at: at, number: s.inserted, index: len(s.heap)}
		s.byItem[item] = entry
		s.heap = append(s.heap, entry)
	case at.Before(entry.at):
		entry.at = at
	default:
		return false
	}
	s.up(entry.index)
	return entry.index == 0
}

// pop takes the first item; there must be one.
func (s *schedule[T]) pop() T {
	entry := s.heap[0]
	last := len(s.heap) - 1
	s.swap(0, last)
	s.heap[last] = nil
	s.heap = s.heap[:last]
	s.down(0)
	delete(s.byItem, entry.item)
	return entry.item
}

func (s *schedule[T]) before(i, j int) bool {
	a, b := s.heap[i], s.heap[j]
	if a.at.Equal(b.at) {
		return a.number < b.number
	}
	return a.at.Before(b.at)
}

func (s *schedule[T]) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].index, s.heap[j].index = i, j
}

func (s *schedule[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !s.before(i, parent) {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *schedule[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			return
		}
		if right := child + 1; right < len(s.heap) && s.before(right, child) {
			child = right
		}
		if !s.before(child, i) {
			return
		}
		s.swap(i, child)
		i = child
	}
}
