package spool

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSpool compares a spool with a slice under random operations. Pushed slices never change.
func TestSpool(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var s Spool[int]
		var want []int
		var pushed, copies [][]int
		next, head := 0, uint64(0)
		for range 2000 {
			switch op := random.IntN(10); {
			case op < 3:
				segment := make([]int, random.IntN(20))
				for i := range segment {
					next++
					segment[i] = next
				}
				pushed, copies = append(pushed, segment), append(copies, slices.Clone(segment))
				s.Push(segment)
				want = append(want, segment...)
			case op < 9:
				for range random.IntN(12) {
					if len(want) == 0 {
						break
					}
					if first, got := *s.First(), *s.Pop(); first != want[0] || got != want[0] {
						t.Fatalf("seed %d: first %d, popped %d, want %d", seed, first, got, want[0])
					}
					want = want[1:]
					head++
				}
			case len(want) > 0:
				i := random.IntN(len(want))
				next++
				instead := next
				s.Replace(s.Head()+uint64(i), &instead)
				want[i] = instead
			}
			if s.Len() != len(want) || s.Head() != head || s.Tail() != head+uint64(len(want)) {
				t.Fatalf("seed %d: %d elements from %d to %d, want %d from %d", seed, s.Len(), s.Head(), s.Tail(), len(want), head)
			}
			var all []int
			place := head
			s.All(func(at uint64, e *int) {
				if at != place {
					t.Fatalf("seed %d: place %d, want %d", seed, at, place)
				}
				place++
				all = append(all, *e)
			})
			if !slices.Equal(all, want) {
				t.Fatalf("seed %d: holds %v, want %v", seed, all, want)
			}
		}
		for i := range pushed {
			if !slices.Equal(pushed[i], copies[i]) {
				t.Fatalf("seed %d: a segment was changed", seed)
			}
		}
	}
}

// TestReadersShare checks that readers of one segment do not see each other's replacements.
func TestReadersShare(t *testing.T) {
	var a, b Spool[int]
	shared := []int{1, 2, 3}
	a.Push(shared)
	b.Push(shared)
	other := 20
	a.Replace(1, &other)
	for i, want := range []int{1, 20, 3} {
		if got := *a.Pop(); got != want {
			t.Errorf("a: element %d is %d, want %d", i, got, want)
		}
	}
	for i, want := range []int{1, 2, 3} {
		if got := *b.Pop(); got != want {
			t.Errorf("b: element %d is %d, want %d", i, got, want)
		}
	}
}

// TestPushAllocatesNothing checks that a reader allocates nothing except the places of segments.
func TestPushAllocatesNothing(t *testing.T) {
	var s Spool[int]
	segment := make([]int, 1000)
	if n := testing.AllocsPerRun(1000, func() {
		s.Push(segment)
		for s.Len() > 0 {
			s.Pop()
		}
	}); n >= 1 {
		t.Errorf("%v allocations for a segment", n)
	}
}
