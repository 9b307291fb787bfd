// Package schedule orders items by the time at which they are due.
package schedule

import (
	"math"
	"time"
)

// Schedule is a heap of items by the time at which they are due; items of one instant keep the
// order in which they came. Its memory is reused, so a steady number of delayed items costs no
// allocations. It is not safe for concurrent use.
type Schedule[T comparable] struct {
	// start is the instant from which times are counted, on the monotonic clock if there is one.
	start time.Time
	// chunks is the memory of the waiting items, in pieces of chunkSize; free are the places in it
	// without an item, used is how many places have ever been used.
	chunks [][]entry[T]
	free   []int32
	used   int32
	// heap holds places.
	heap   []int32
	byItem map[T]int32
	// inserted numbers the insertions.
	inserted uint64
}

type entry[T comparable] struct {
	item T
	// at is when the item is due, relative to the schedule's start.
	at time.Duration
	// number breaks ties; index is the place in the heap.
	number uint64
	index  int32
}

// chunkSize is a power of two; an empty schedule keeps memory for keptChunks.
const (
	chunkSize  = 512
	keptChunks = 8
)

// New returns an empty schedule. The times passed to it later must not be before start.
func New[T comparable](start time.Time) *Schedule[T] {
	return &Schedule[T]{start: start, byItem: map[T]int32{}}
}

func (s *Schedule[T]) at(place int32) *entry[T] {
	return &s.chunks[place/chunkSize][place%chunkSize]
}

// Len returns the number of items that wait.
func (s *Schedule[T]) Len() int { return len(s.heap) }

// Wait returns the time from now until the first item is due, not positive if it is due already;
// there must be one.
func (s *Schedule[T]) Wait(now time.Time) time.Duration {
	return s.at(s.heap[0]).at - now.Sub(s.start)
}

// Has reports whether item waits.
func (s *Schedule[T]) Has(item T) bool {
	_, waits := s.byItem[item]
	return waits
}

// Rule decides a delayed add of an item that already waits.
type Rule int

const (
	// KeepEarlier keeps the earlier of both times, as client-go does.
	KeepEarlier Rule = iota
	// KeepNew uses the new time.
	KeepNew
	// KeepOld keeps the old time.
	KeepOld
)

// Insert schedules item for delay after now. It reports whether item has that time now, and whether
// the head has changed; if it has, the timer for the head must be reset.
func (s *Schedule[T]) Insert(item T, now time.Time, delay time.Duration, r Rule) (taken, head bool) {
	at := now.Sub(s.start)
	if delay > math.MaxInt64-at {
		at = math.MaxInt64
	} else {
		at += delay
	}
	place, waits := s.byItem[item]
	if !waits {
		place = s.place()
		s.inserted++
		*s.at(place) = entry[T]{item: item, at: at, number: s.inserted, index: int32(len(s.heap))}
		s.byItem[item] = place
		s.heap = append(s.heap, place)
		s.up(len(s.heap) - 1)
		return true, s.at(place).index == 0
	}
	known := s.at(place)
	if r == KeepOld || (r == KeepEarlier && at >= known.at) {
		return false, false
	}
	first := known.index == 0
	known.at = at
	s.fix(int(known.index))
	return true, first || known.index == 0
}

// place returns an unused place.
func (s *Schedule[T]) place() int32 {
	if last := len(s.free) - 1; last >= 0 {
		place := s.free[last]
		s.free = s.free[:last]
		return place
	}
	if int(s.used) == len(s.chunks)*chunkSize {
		s.chunks = append(s.chunks, make([]entry[T], chunkSize))
	}
	s.used++
	return s.used - 1
}

// Pop removes and returns the first item; there must be one.
func (s *Schedule[T]) Pop() T {
	item := s.at(s.heap[0]).item
	s.removeAt(0)
	return item
}

// Remove removes item. It reports whether it waited, and whether it was the head.
func (s *Schedule[T]) Remove(item T) (waited, head bool) {
	place, waits := s.byItem[item]
	if !waits {
		return false, false
	}
	index := int(s.at(place).index)
	s.removeAt(index)
	return true, index == 0
}

func (s *Schedule[T]) removeAt(i int) {
	place := s.heap[i]
	last := len(s.heap) - 1
	s.swap(i, last)
	s.heap = s.heap[:last]
	if i < last {
		s.fix(i)
	}
	known := s.at(place)
	delete(s.byItem, known.item)
	*known = entry[T]{} // It must not keep the item alive.
	s.free = append(s.free, place)
	if last == 0 && len(s.chunks) > keptChunks {
		s.Clear()
	}
}

// Clear removes all items and releases their memory.
func (s *Schedule[T]) Clear() {
	s.chunks, s.free, s.used, s.heap, s.byItem = nil, nil, 0, nil, map[T]int32{}
}

func (s *Schedule[T]) before(i, j int) bool {
	a, b := s.at(s.heap[i]), s.at(s.heap[j])
	if a.at == b.at {
		return a.number < b.number
	}
	return a.at < b.at
}

func (s *Schedule[T]) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.at(s.heap[i]).index, s.at(s.heap[j]).index = int32(i), int32(j)
}

// fix restores the order of the heap around i.
func (s *Schedule[T]) fix(i int) {
	s.up(i)
	s.down(i)
}

func (s *Schedule[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !s.before(i, parent) {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *Schedule[T]) down(i int) {
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
