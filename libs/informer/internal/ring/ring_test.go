package ring

import "testing"

// TestRing checks that the ring of a handler shrinks again, and keeps nothing alive (checklist
// H114, mended).
func TestRing(t *testing.T) {
	var r Ring[*int]
	next, want := 0, 0
	push := func(n int) {
		for range n {
			value := next
			place := r.Push(&value)
			if got := *r.At(place); *got != next {
				t.Fatalf("its place holds %d, want %d", *got, next)
			}
			next++
		}
	}
	pop := func(n int) {
		for range n {
			if got := *r.Pop(); got != want {
				t.Fatalf("popped %d, want %d", got, want)
			}
			want++
		}
	}
	push(3)
	pop(2)
	push(10_000)
	if len(r.slots) < 10_001 {
		t.Errorf("%d slots for 10001 elements", len(r.slots))
	}
	pop(9_990)
	if len(r.slots) > 4*smallest {
		t.Errorf("%d slots for %d elements", len(r.slots), r.Len())
	}
	pop(11)
	for i, slot := range r.slots {
		if slot != nil {
			t.Errorf("slot %d of an empty ring holds %d", i, *slot)
		}
	}
}
