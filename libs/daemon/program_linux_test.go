package daemon

import "testing"

// TestProgramGivesBack checks that most of this program's pages are unmapped, and that it runs on.
func TestProgramGivesBack(t *testing.T) {
	before := mappedNow(t)
	if before < 1<<20 {
		t.Fatalf("%d bytes of the program are mapped, too few to see the difference", before)
	}
	found, err := programMappings()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found {
		if err := m.giveBack(); err != nil {
			t.Fatal(err)
		}
	}
	if after := mappedNow(t); after > before/2 {
		t.Errorf("%d bytes of the program are mapped, %d before", after, before)
	}
}

func mappedNow(t *testing.T) uint64 {
	t.Helper()
	found, err := programMappings()
	if err != nil {
		t.Fatal(err)
	}
	var mapped uint64
	for _, m := range found {
		mapped += m.resident
	}
	return mapped
}
