package levels

import (
	"fmt"
	"slices"
	"testing"
)

func handOut(l *Levels[string]) (items []string) {
	for l.Len() > 0 {
		item := l.Pop()
		items = append(items, fmt.Sprint(item, l.Popped()))
	}
	return items
}

func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(l *Levels[string])
		want []string
	}{
		{"highest first, first in, first out within a level", func(l *Levels[string]) {
			for item, priority := range map[string]int{"low": -100, "high": 7} {
				l.Ask(item, priority)
			}
			for _, item := range []string{"low", "a", "b", "high", "c"} {
				l.Push(item)
			}
		}, []string{"high7", "a0", "b0", "c0", "low-100"}},
		{"an item that rises goes to the end of its new level", func(l *Levels[string]) {
			l.Ask("a", -1)
			for _, item := range []string{"a", "b", "c"} {
				l.Push(item)
			}
			if before, now := l.Ask("a", 0); before != -1 || now != 0 {
				t.Errorf("it rose from %d to %d", before, now)
			}
		}, []string{"b0", "c0", "a0"}},
		{"no item sinks", func(l *Levels[string]) {
			l.Ask("a", 3)
			l.Push("a")
			l.Push("b")
			if before, now := l.Ask("a", -3); before != 3 || now != 3 {
				t.Errorf("it went from %d to %d", before, now)
			}
		}, []string{"a3", "b0"}},
		{"a priority asked for before the item comes", func(l *Levels[string]) {
			l.Ask("late", 1)
			l.Ask("late", 2)
			l.Push("early")
			l.Push("late")
			if p := l.Priority("late"); p != 2 {
				t.Errorf("its priority is %d", p)
			}
		}, []string{"late2", "early0"}},
		{"a forgotten priority", func(l *Levels[string]) {
			l.Ask("a", 5)
			l.Forget("a")
			l.Push("b")
			l.Push("a")
			l.Forget("b") // It waits, so it keeps its place.
		}, []string{"b0", "a0"}},
		{"an item that comes again", func(l *Levels[string]) {
			l.Ask("a", 5)
			l.Push("a")
			l.Pop()
			if p := l.Priority("a"); p != 0 {
				t.Errorf("the priority of an item that was handed out is %d", p)
			}
			l.Push("b")
			l.Push("a")
		}, []string{"b0", "a0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := New[string]()
			tt.do(l)
			if got := handOut(l); !slices.Equal(got, tt.want) {
				t.Errorf("handed out %v, want %v", got, tt.want)
			}
			if len(l.places) != 0 {
				t.Errorf("%d places remain of items that were handed out", len(l.places))
			}
		})
	}
}

// TestMemory checks that unused places are kept up to a limit, and keep no item alive.
func TestMemory(t *testing.T) {
	l := New[*int]()
	for i := range 2 * keptPlaces {
		l.Push(&i)
	}
	for l.Len() > 0 {
		l.Pop()
	}
	if len(l.free) != keptPlaces {
		t.Errorf("%d places are kept, want %d", len(l.free), keptPlaces)
	}
	for _, p := range l.free {
		if p.item != nil {
			t.Fatal("an unused place keeps its item alive")
		}
	}
	for _, p := range l.heap[:cap(l.heap)] {
		if p != nil {
			t.Fatal("the heap keeps a place alive")
		}
	}
}
