// Package spool is the buffer of one of many readers that get the same elements. Elements pushed
// together are stored once for all readers, and each reader keeps only its position in them.
package spool

import "github.com/garboard/garboard/libs/informer/internal/ring"

// Spool is the queue of one reader. Elements that were pushed together stay in memory together,
// until the reader has taken the last of them. The zero value is empty.
type Spool[E any] struct {
	segments ring.Ring[[]E]
	// taken is how many elements of the first segment were taken.
	taken int
	head  uint64
	tail  uint64
	// instead holds the elements that only this reader gets, in place of the shared ones.
	instead map[uint64]*E
}

// Len returns the number of elements.
func (s *Spool[E]) Len() int { return int(s.tail - s.head) }

// Head returns the place of the first element. An element keeps its place.
func (s *Spool[E]) Head() uint64 { return s.head }

// Tail returns the place of the next element to be pushed.
func (s *Spool[E]) Tail() uint64 { return s.tail }

// Push adds elements at the tail. The slice must not change afterwards.
func (s *Spool[E]) Push(elements []E) {
	if len(elements) == 0 {
		return
	}
	s.segments.Push(elements)
	s.tail += uint64(len(elements))
}

// First returns the element at the head; there must be one. It must not be changed.
func (s *Spool[E]) First() *E {
	if e, ok := s.instead[s.head]; ok {
		return e
	}
	return &(*s.segments.At(s.segments.Head()))[s.taken]
}

// Pop removes and returns the first element.
func (s *Spool[E]) Pop() *E {
	e := s.First()
	if s.instead != nil {
		delete(s.instead, s.head)
		if len(s.instead) == 0 {
			s.instead = nil
		}
	}
	s.head++
	if s.taken++; s.taken == len(*s.segments.At(s.segments.Head())) {
		s.segments.Pop()
		s.taken = 0
	}
	return e
}

// Replace replaces the element at a place, for this reader only. The place must not be before the
// head; it may be one that the next pushed elements get.
func (s *Spool[E]) Replace(place uint64, e *E) {
	if s.instead == nil {
		s.instead = map[uint64]*E{}
	}
	s.instead[place] = e
}

// All calls do with each element and its place, in order.
func (s *Spool[E]) All(do func(place uint64, e *E)) {
	place, skip := s.head, s.taken
	for at := s.segments.Head(); at != s.segments.Tail(); at++ {
		segment := *s.segments.At(at)
		for i := skip; i < len(segment); i++ {
			e := &segment[i]
			if other, ok := s.instead[place]; ok {
				e = other
			}
			do(place, e)
			place++
		}
		skip = 0
	}
}
