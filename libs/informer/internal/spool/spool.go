// Package spool is the buffer of one of many readers who are told the same: what is told at once
// is kept once for all of them, and each has only its place in it.
package spool

import "github.com/garboard/garboard/libs/informer/internal/ring"

// Spool is the queue of one reader. What was pushed together is kept alive together, until the
// reader has taken the last of it. The zero value is empty.
type Spool[E any] struct {
	segments ring.Ring[[]E]
	// taken is how many elements of the first segment were taken.
	taken int
	head  uint64
	tail  uint64
	// instead has what this reader gets in place of what all get.
	instead map[uint64]*E
}

// Len is how many elements there are.
func (s *Spool[E]) Len() int { return int(s.tail - s.head) }

// Head is the place of the first element, Tail that which the next element gets. An element
// keeps its place.
func (s *Spool[E]) Head() uint64 { return s.head }

// Tail is described at Head.
func (s *Spool[E]) Tail() uint64 { return s.tail }

// Push adds elements at the tail. The slice must not change any more.
func (s *Spool[E]) Push(elements []E) {
	if len(elements) == 0 {
		return
	}
	s.segments.Push(elements)
	s.tail += uint64(len(elements))
}

// First is the element at the head; there must be one. It must not be changed.
func (s *Spool[E]) First() *E {
	if e, ok := s.instead[s.head]; ok {
		return e
	}
	return &(*s.segments.At(s.segments.Head()))[s.taken]
}

// Pop takes the first element.
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

// Replace gives this reader another element at a place that is not before the head, or that
// the next elements to be pushed get.
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
