package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestProgramGivesBack maps all of this program, and checks that most of its pages are unmapped when it is idle, and that
// it runs on.
func TestProgramGivesBack(t *testing.T) {
	found, err := programMappings()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(m.start), uintptr(m.end-m.start), unix.MADV_POPULATE_READ)
		if errno != 0 { // Linux before 5.14
			t.Skipf("this kernel does not map a file at once: %v", errno)
		}
	}
	before := mappedNow(t)
	if before <= worthwhile {
		t.Fatalf("%d bytes of the program are mapped, too few to be given back", before)
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), idleCheck+time.Second)
		defer cancel()
		if err := ReturnMemory(ctx); err != nil {
			t.Error(err)
		}
	})
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
